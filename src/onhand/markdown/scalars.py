"""What is the value of an unquoted word of YAML?"""

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Longer numbers stay text: no reader of JSON keeps them exactly.
_MAX_DIGITS = {"": 18, "0o": 20, "0x": 15}
_MAX_FLOAT_DIGITS = 99  # before the point, and behind it
_MAX_EXPONENT_DIGITS = 3


def scalar(text: str) -> object:
    """The value of an unquoted text, by YAML 1.2's core schema."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "-+.0123456789":
        return text
    if _is_int(text):
        return int(text, 0) if text[:2] in _MAX_DIGITS else int(text)
    if _is_float(text):
        number = float(text)
        return text if number in (float("inf"), float("-inf")) else number
    return text


def _is_int(text: str) -> bool:
    if text[:2] in ("0o", "0x"):
        digits = "01234567" if text[1] == "o" else "0123456789abcdefABCDEF"
        return not text[2:].strip(digits) and 0 < len(text) - 2 <= _MAX_DIGITS[text[:2]]
    return _is_number(_unsigned(text), _MAX_DIGITS[""])


def _is_float(text: str) -> bool:
    mantissa, e, exponent = text.partition("e" if "e" in text else "E")
    whole, _, fraction = _unsigned(mantissa).partition(".")
    is_mantissa = _is_number(whole + fraction, 2 * _MAX_FLOAT_DIGITS)
    is_short = max(len(whole), len(fraction)) <= _MAX_FLOAT_DIGITS
    return is_mantissa and is_short and (not e or _is_number(_unsigned(exponent), _MAX_EXPONENT_DIGITS))


def _is_number(text: str, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= most


def _unsigned(text: str) -> str:
    return text[1:] if text[:1] in ("-", "+") else text
