"""Is this text whole? Every room that takes text from outside may ask."""


def whole(text: str) -> str:
    """The text with halves of surrogate pairs joined; U+FFFD stands for a half that has no other half."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
