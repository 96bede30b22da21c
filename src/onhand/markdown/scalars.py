"""What is the value of an unquoted word of YAML?"""

import re

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Longer numbers stay text: no reader of JSON keeps them exactly.
_INT = re.compile(r"[-+]?[0-9]{1,18}|0o[0-7]{1,20}|0x[0-9A-Fa-f]{1,15}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]{1,99}|[0-9]{1,99}(?:\.[0-9]{0,99})?)(?:[eE][-+]?[0-9]{1,3})?")


def scalar(text: str) -> object:
    """The value of an unquoted text, by YAML 1.2's core schema."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return text if number in (float("inf"), float("-inf")) else number
    return text
