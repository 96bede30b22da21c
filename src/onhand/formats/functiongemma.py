"""Translate tools, calls and results for FunctionGemma: one text, byte for byte as in its training.

The template in the released GGUF file is authoritative: no line breaks between declarations, properties sorted by name,
`description` first and `type` last, types in capitals, every string between two marks. Google's on-device runtime has
its own template, which differs in the text before the declarations. Later Gemma models use the same grammar with
another mark.

No string can forge a mark or a turn: the `<` of a control token inside a string becomes `&lt;`, which parsing reverses.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onhand.errors import InputError
from onhand.formats.message import Message, as_mapping, split_system
from onhand.tools.registry import Call, Result
from onhand.tools.tool import MAX_DEPTH

MARK, GEMMA4_MARK = "<escape>", '<|"|>'
TEMPLATES = ("gguf", "litert")
PREAMBLE = "You are a model that can do function calling with the following functions"
STOPS = ("<start_function_response>", "<end_of_turn>")
# The template skips properties with these names at every level, so the model was never trained to fill them.
SKIPPED_PROPERTIES = ("description", "type", "properties", "required", "nullable")
_CONTROLS = (
    *("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<think>", "</think>"),
    *(f"<{end}_function_{what}>" for what in ("declaration", "call", "response") for end in ("start", "end")),
)
_CALL, _END_CALL, _RESPONSE = "<start_function_call>", "<end_function_call>", "<start_function_response>"
_PLAIN_KEY = re.compile(r"[\w.$/-]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BARE = re.compile(r"[^,{}\[\]<]*")
_WORDS = {"true": True, "false": False, "null": None, "None": None}
_THOUGHT = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)


class FunctionGemmaFormat:
    """The whole conversation as one text, in which `mark` encloses every string."""

    name = "functiongemma"

    def __init__(self, mark: str = MARK, template: str = "gguf") -> None:
        if not mark.startswith("<") or template not in TEMPLATES:
            raise InputError("the mark must begin with '<', and the template must be gguf or litert")
        self.mark = mark
        self.template = template
        controls = "|".join(re.escape(control[1:]) for control in (*_CONTROLS, mark))
        self._forged = re.compile(rf"(?:<|&(?:amp;)*lt;)(?={controls})")
        self._escaped = re.compile(rf"&((?:amp;)*)lt;(?={controls})")

    def request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return `prompt`, without the beginning-of-sequence token, which runtimes add."""
        system, rest = split_system(messages)
        parts = [self._developer(system, tools)]
        before = ""
        for message in rest:
            if message.role == "tool":
                parts += [self._response(result) for result in message.results]
            else:
                end = "" if message.calls else "<end_of_turn>\n"
                parts += [_begin_turn(message, before), self.serialize(message), end]
            before = message.role
        if before != "tool":  # results do not open a turn: the model continues after them
            parts.append("<start_of_turn>model\n")
        return {"prompt": "".join(parts)}

    def serialize(self, message: Message) -> str:
        """Return a message: its text, then its calls."""
        return self._escape(message.text).strip() + "".join(map(self._serialize_call, message.calls))

    def read(self, response: Any) -> Message:
        """Parse what a model wrote. A call that was cut off inside its arguments has them as text."""
        text = _THOUGHT.sub("", response if isinstance(response, str) else "")
        text, *pieces = text.split(_CALL)
        calls = [self._parse_call(piece) for piece in pieces]
        plain = text.partition("<end_of_turn>")[0]
        return Message("assistant", self._unescape(plain).strip(), tuple(call for call in calls if call))

    def declaration(self, wired: Mapping[str, Any]) -> str:
        """Return the declaration of one tool, which is given as by `Tool.wire`."""
        schema = wired["input_schema"]
        inner = []
        if properties := self._properties(schema.get("properties")):
            inner.append(f"properties:{{{properties}}}")
        if schema.get("required"):
            inner.append(f"required:{self._names(schema['required'])}")
        inner.append(f"type:{self._text(str(schema.get('type', 'object')).upper())}")
        body = f"description:{self._text(wired['description'])},parameters:{{{','.join(inner)}}}"
        name = self._escape(wired["name"])
        return f"<start_function_declaration>declaration:{name}{{{body}}}<end_function_declaration>"

    def _developer(self, system: str, tools: Sequence[Mapping[str, Any]]) -> str:
        if not system and not tools:
            return ""
        text = self._escape(system).strip()
        if self.template == "litert":
            text += "\n\n" if system and tools else ""
        else:
            text = text or PREAMBLE
        return f"<start_of_turn>developer\n{text}{''.join(map(self.declaration, tools))}<end_of_turn>\n"

    def _serialize_call(self, call: Call) -> str:
        if isinstance(call.arguments, str) and not _is_json_object(call.arguments):  # a call that was cut off
            return f"{_CALL}call:{self._escape(call.name)}{{{self._escape(call.arguments)}"
        pairs = sorted(as_mapping(call.arguments).items())
        inner = ",".join(f"{self._key(key)}:{self._value(value)}" for key, value in pairs)
        return f"{_CALL}call:{self._escape(call.name)}{{{inner}}}{_END_CALL}"

    def _response(self, result: Result) -> str:
        name, key = self._escape(result.name), "value" if result.ok else "error"
        return f"{_RESPONSE}response:{name}{{{key}:{self._text(result.text)}}}<end_function_response>"

    def _properties(self, properties: object) -> str:
        if not isinstance(properties, Mapping):
            return ""
        named = sorted((key, value) for key, value in properties.items() if key not in SKIPPED_PROPERTIES)
        return ",".join(f"{self._key(key)}:{self._property(_mapping(value))}" for key, value in named)

    def _property(self, schema: Mapping[str, Any]) -> str:
        kind = _type(schema)
        parts = [f"description:{self._text(str(schema.get('description') or ''))}"]
        if kind == "STRING" and schema.get("enum"):
            parts.append(f"enum:{self._value(schema['enum'], marked_keys=True)}")
        elif kind == "OBJECT":
            parts.append(f"properties:{{{self._properties(schema.get('properties'))}}}")
            if schema.get("required"):
                parts.append(f"required:{self._names(schema['required'])}")
        elif kind == "ARRAY" and isinstance(schema.get("items"), Mapping) and schema["items"]:
            parts.append(f"items:{{{self._items(schema['items'])}}}")
        parts.append(f"type:{self._text(kind)}")
        return f"{{{','.join(parts)}}}"

    def _items(self, items: Mapping[str, Any]) -> str:
        parts = []
        for key, value in sorted(items.items()):
            if value is None:
                continue
            if key == "properties":
                parts.append(f"properties:{{{self._properties(value)}}}")
            elif key == "required":
                parts.append(f"required:{self._names(value)}")
            elif key == "type":
                upper = value.upper() if isinstance(value, str) else [str(one).upper() for one in value]
                parts.append(f"type:{self._value(upper)}")
            else:
                parts.append(f"{self._key(key)}:{self._value(value, marked_keys=True)}")
        return ",".join(parts)

    def _names(self, names: Iterable[object]) -> str:
        return f"[{','.join(self._text(str(name)) for name in names)}]"

    def _value(self, value: Any, marked_keys: bool = False) -> str:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            keys = {str(key): self._text(str(key)) if marked_keys else self._key(str(key)) for key in value}
            pairs = sorted((str(key), inner) for key, inner in value.items())
            return f"{{{','.join(f'{keys[key]}:{self._value(inner, marked_keys)}' for key, inner in pairs)}}}"
        if isinstance(value, list | tuple):
            return f"[{','.join(self._value(inner, marked_keys) for inner in value)}]"
        return json.dumps(value)

    def _key(self, key: str) -> str:
        return key if _PLAIN_KEY.fullmatch(key) else self._text(key)

    def _text(self, text: str) -> str:
        return f"{self.mark}{self._escape(text)}{self.mark}"

    def _escape(self, text: str) -> str:
        return self._forged.sub(lambda found: "&lt;" if found[0] == "<" else f"&amp;{found[0][1:]}", text)

    def _unescape(self, text: str) -> str:
        return self._escaped.sub(lambda found: f"&{found[1][4:]}lt;" if found[1] else "<", text)

    def _parse_call(self, piece: str) -> Call | None:
        """Parse `call:NAME{…}`, ignoring whatever follows it."""
        head, brace, rest = piece.partition("{")
        name = head.partition("call:")[2].strip().partition("\n")[0].strip()
        if not name:
            return None
        if not brace:
            return Call(name, {})
        try:
            return Call(name, _ArgumentsParser(rest, self.mark, self._unescape).pairs(MAX_DEPTH))
        except _CutOff:
            return Call(name, self._unescape(rest.partition(_END_CALL)[0]))


def _begin_turn(message: Message, before: str) -> str:
    """Return the opening of a turn. After results the model continues its turn, which a user's message must end."""
    if message.role == "assistant":
        return "" if before == "tool" else "<start_of_turn>model\n"
    return ("<end_of_turn>\n" if before == "tool" else "") + "<start_of_turn>user\n"


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a property or, of several, the first that is not null, since the format allows only one."""
    kind = schema.get("type", "")
    if isinstance(kind, list | tuple):
        kind = next((one for one in kind if one != "null"), "")
    return str(kind).upper()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


class _CutOff(Exception):
    """The text ends, or violates the grammar, before the arguments are complete."""


class _ArgumentsParser:
    """Parses arguments from left to right, looking at each character once."""

    def __init__(self, text: str, mark: str, unescape: Callable[[str], str]) -> None:
        self.text, self.mark, self.unescape = text, mark, unescape
        self.place = 0

    def pairs(self, levels_left: int) -> dict[str, Any]:
        """Parse the pairs after `{`, up to its `}`."""
        found: dict[str, Any] = {}
        while not self._take("}"):
            if found and not self._take(","):
                raise _CutOff
            key = self._read_marked() if self._at(self.mark) else self._until(":").strip()
            self._expect(":")
            found[key] = self._value(levels_left - 1)
        return found

    def _value(self, levels_left: int) -> Any:
        if levels_left <= 0:
            raise _CutOff
        if self._at(self.mark):
            return self._read_marked()
        if self._take("{"):
            return self.pairs(levels_left)
        if self._take("["):
            return self._list(levels_left)
        return self._literal()

    def _list(self, levels_left: int) -> list[Any]:
        found: list[Any] = []
        while not self._take("]"):
            if found and not self._take(","):
                raise _CutOff
            found.append(self._value(levels_left - 1))
        return found

    def _literal(self) -> Any:
        """Parse a number or a word; anything else that has no marks is a string."""
        bare = _BARE.match(self.text, self.place)
        self.place = bare.end() if bare else self.place
        word = bare[0].strip() if bare else ""
        if self.place == len(self.text) or not word:
            raise _CutOff
        if word in _WORDS:
            return _WORDS[word]
        return _number(word) if _NUMBER.fullmatch(word) else word

    def _read_marked(self) -> str:
        self._expect(self.mark)
        text = self._until(self.mark)
        self._expect(self.mark)
        return self.unescape(text)

    def _until(self, end: str) -> str:
        found = self.text.find(end, self.place)
        if found < 0:
            raise _CutOff
        text, self.place = self.text[self.place : found], found
        return text

    def _at(self, token: str) -> bool:
        return self.text.startswith(token, self.place)

    def _take(self, token: str) -> bool:
        if self.place >= len(self.text):
            raise _CutOff
        found = self._at(token)
        self.place += len(token) if found else 0
        return found

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise _CutOff


def _number(word: str) -> Any:
    """Return the number, or its text if Python cannot represent it, which the tool's schema will then reject."""
    try:
        number = json.loads(word)
    except ValueError:
        return word
    return word if number in (float("inf"), float("-inf")) else number
