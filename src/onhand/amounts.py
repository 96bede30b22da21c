"""How many of what? A number beside its noun, as a person writes it. Every room that writes sentences may ask."""


def counted(number: int, noun: str) -> str:
    """`1 document`, `2 documents`, `3,000 directories`."""
    return f"{number:,} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """The noun as it stands behind that number."""
    if number == 1:
        return noun
    if noun.endswith("y") and not noun.endswith(("ay", "ey", "oy", "uy")):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
