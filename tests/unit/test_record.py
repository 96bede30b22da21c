"""Does a Record do what a NamedTuple of the same fields does?"""

import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, NamedTuple

import pytest

from onhand.record import Record, to_json
from requirements import requirement


class Light(Record):
    """A light one."""

    name: str
    size: int = 3
    tags: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.size}"


class Twin(NamedTuple):
    name: str
    size: int = 3
    tags: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.size}"


BUILDS: list[Callable[[Any], Any]] = [
    lambda cls: cls("a"),
    lambda cls: cls("a", 4),
    lambda cls: cls("a", tags=("x",)),
    lambda cls: cls(name="a", size=1, tags=()),
    lambda cls: cls._make(["a", 2, ("y",)]),
    lambda cls: cls("a")._replace(size=9),
]


@pytest.mark.parametrize("build", BUILDS)
def test_it_is_built_and_read_like_a_named_tuple(build: Callable[[Any], Any]) -> None:
    light, twin = build(Light), build(Twin)
    assert tuple(light) == tuple(twin)
    assert light == tuple(twin)
    assert hash(light) == hash(twin)
    assert (light.name, light.size, light.tags, light.shown) == (twin.name, twin.size, twin.tags, twin.shown)
    assert light._asdict() == twin._asdict()
    assert repr(light) == repr(twin).replace("Twin", "Light")
    assert Light._fields == Twin._fields
    assert pickle.loads(pickle.dumps(light)) == light


@pytest.mark.parametrize(
    "build",
    [
        lambda cls: cls(),
        lambda cls: cls("a", 1, (), "more"),
        lambda cls: cls("a", colour="red"),
        lambda cls: cls("a", name="b"),
        lambda cls: cls("a")._replace(colour="red"),
    ],
)
def test_wrong_fields_are_refused_as_a_named_tuple_refuses_them(build: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        build(Twin)
    with pytest.raises(TypeError, match="name, size, tags"):
        build(Light)


def test_it_cannot_be_changed() -> None:
    light = Light("a")
    for name in ("name", "other"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(light, name, "b")
    assert light == ("a", 3, ())


def test_it_can_be_matched_by_its_fields() -> None:
    match Light("a", 4):
        case Light(name, size):
            assert (name, size) == ("a", 4)


@requirement("project.cold-path-is-light")
def test_it_does_not_import_typing() -> None:
    program = "import onhand.record, sys; sys.exit('typing' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@dataclass
class Data:
    at: date


class Color(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (Light("a", tags=("x",)), {"name": "a", "size": 3, "tags": ["x"]}),
        (Twin("a"), {"name": "a", "size": 3, "tags": []}),
        ([(Light("a"),), {"b": (1, None)}], [[{"name": "a", "size": 3, "tags": []}], {"b": [1, None]}]),
        (Data(date(2026, 1, 31)), {"at": "2026-01-31"}),
        (Color.RED, "red"),
    ],
)  # fmt: skip
def test_it_becomes_json(value: Any, json: Any) -> None:
    assert to_json(value) == json
