"""What is the value of an unquoted word of YAML?"""

import re

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Longer numbers stay text: no reader of JSON keeps them exactly.
_INT = r"[-+]?[0-9]{1,18}|0o[0-7]{1,20}|0x[0-9A-Fa-f]{1,15}"
_FLOAT = r"[-+]?(?:\.[0-9]{1,99}|[0-9]{1,99}(?:\.[0-9]{0,99})?)(?:[eE][-+]?[0-9]{1,3})?"


def scalar(text: str) -> object:
    """The value of an unquoted text, by YAML 1.2's core schema."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "-+.0123456789":  # so are most, and to compile a pattern costs more than to read a page
        return text
    if re.fullmatch(_INT, text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if re.fullmatch(_FLOAT, text):
        number = float(text)
        return text if number in (float("inf"), float("-inf")) else number
    return text
