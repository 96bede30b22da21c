"""What does a page say about itself?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from onhand.markdown.frontmatter import FrontMatter, read_front_matter
from onhand.markdown.strict_yaml import read_mapping
from requirements import requirement


def data(content: str) -> dict[str, object]:
    found = read_front_matter(f"---\n{content}\n---\nbody")
    assert found.problem is None
    assert found.body == "body"
    return found.data


@pytest.fixture(params=["C parser", "Python parser"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read with either of PyYAML's parsers; the results are the same."""
    if request.param == "Python parser":
        monkeypatch.delattr(yaml, "CLoader", raising=False)
    elif not hasattr(yaml, "CLoader"):
        pytest.skip("this PyYAML was built without libyaml")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@requirement("markdown.front-matter")
def test_front_matter_is_read_and_the_body_follows_it(newline: str, mark: str) -> None:
    page = mark + newline.join(["---", "name: x", "tags: [a, b]", "--- ", "", "# Body", ""])
    assert read_front_matter(page) == FrontMatter({"name": "x", "tags": ["a", "b"]}, 4, "\n# Body\n", None)


@pytest.mark.parametrize(
    "page",
    ["", "text", "# A\n---\na: b\n---\n", " ---\na: b\n---", "----\na: b\n----", "---\n\nprose\n\n---\n"],
)
def test_a_page_without_front_matter_is_all_body(page: str) -> None:
    assert read_front_matter(page) == FrontMatter({}, 0, page, None)


@pytest.mark.parametrize("page", ["---\n---", "---\n---\n", "---\n# only a comment\n...\n", "---\n\n---\n"])
def test_empty_front_matter_says_nothing(page: str) -> None:
    found = read_front_matter(page)
    assert (found.data, found.body, found.problem) == ({}, "", None)
    assert found.end_line == page.rstrip("\n").count("\n") + 1


def test_a_blank_line_may_stand_above_the_first_key() -> None:
    assert data("\nname: x") == {"name": "x"}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-0x1F", "-0x1F"),
        ("0x1F", 31),
        ("0o17", 15),
        ("1.5", 1.5),
        ("-.5e3", -500.0),
        ("'12'", "12"),
        ('"true"', "true"),
        ("no", "no"),
        ("NO", "NO"),
        ("on", "on"),
        ("y", "y"),
        ("2026-01-01", "2026-01-01"),
        ("2026-13-45", "2026-13-45"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("9" * 5000, "9" * 5000),
        ("=", "="),
        ("'it''s'", "it's"),
        ('"tab\\t \\u00e9 \\"q\\""', 'tab\t é "q"'),
        ("a # comment", "a"),
        ("a#b", "a#b"),
        ("http://a.b:80/c", "http://a.b:80/c"),
        ("|\n  one\n  two", "one\ntwo\n"),
        (">-\n  one\n  two", "one two"),
        ("one\n  two", "one two"),
        ("[a, 'b, c', 1]", ["a", "b, c", 1]),
        ("\n  - a\n  - b: 1", ["a", {"b": 1}]),
        ("{a: {b: c}}", {"a": {"b": "c"}}),
        ("(x) 日本語 – ok", "(x) 日本語 – ok"),
    ],
)
@requirement("markdown.front-matter-values")
@pytest.mark.usefixtures("parser")
def test_values_are_those_of_yaml_1_2_that_json_can_carry(written: str, value: object) -> None:
    assert data(f"key: {written}") == {"key": value}
    assert json.loads(json.dumps(data(f"key: {written}"), allow_nan=False)) == {"key": value}


@pytest.mark.usefixtures("parser")
def test_a_key_is_its_text() -> None:
    found = data("1: a\nno: b\ntrue: c\n'<<': d\n\"e f\": g\n? h\n: i")
    assert found == {"1": "a", "no": "b", "true": "c", "<<": "d", "e f": "g", "h": "i"}


REFUSED = {
    "anchor": ("a: &b c", "line 2 has an anchor or an alias"),
    "anchor of a key": ("&a b: c", "line 2 has an anchor or an alias"),
    "alias": ("a: &b c\nd: *b", "line 2 has an anchor or an alias"),
    "alias bomb": ("a: &a [x]\n" + "b: [*a, *a]\n" * 9, "line 2 has an anchor or an alias"),
    "undefined merge": ("<<: *nope", "line 2 has a merge key"),
    "merge key": ("x: y\n<<: {a: b}", "line 3 has a merge key"),
    "python tag": ("a: !!python/name:os.system", "line 2 has a tag"),
    "own tag": ("a: !secret x", "line 2 has a tag"),
    "binary tag": ("a: !!binary aGk=", "line 2 has a tag"),
    "tag of a list": ("a: !!set {b, c}", "line 2 has a tag"),
    "tag of a key": ("!!str a: b", "line 2 has a tag"),
    "key twice": ("a: b\na: c", "line 3 has the key 'a' again"),
    "key twice below": ("x:\n  a: b\n  'a': c", "line 4 has the key 'a' again"),
    "list as a key": ("? [a]\n: b", "line 2 has a list or a mapping as a key"),
    "list": ("- a\n- b", "not made of `key: value` lines"),
    "text": ("just words", "not made of `key: value` lines"),
    "second document": ("a: b\n--- c", "line 3 begins a second document"),
    "directive": ("%YAML 1.1", "is not YAML"),
    "deep lists": ("a: " + "[" * 1000 + "]" * 1000, "nested more than 20 deep"),
    "deep mappings": ("\n".join(" " * depth + "a:" for depth in range(300)), "nested more than 20 deep"),
    "open list": ("a: [b", "is not YAML"),
    "open quote": ("a: 'b", "is not YAML"),
    "colon in a value": ("a: when: now", "line 2 is not YAML"),
    "tab as indentation": ("a:\n\tb: c", "is not YAML"),
    "NUL": ("a: b\x00c", "line 2 has the control character U+0000"),
    "C1 control": ("a: b\nc: d\x85e", "line 3 has the control character U+0085"),
    "escape": ("a: \x1b[2J", "line 2 has the control character U+001B"),
    "lone surrogate": ("a: \udfff", "line 2 has the control character U+DFFF"),
    "mark in the middle": ("a: b\ufeffc", "line 2 has the control character U+FEFF"),
    "too long": ("a: " + "x" * 70_000, "longer than 65536 characters"),
    "100,000 keys": ("\n".join(f"k{number}: 1" for number in range(100_000)), "longer than 65536 characters"),
    "merge chain": (
        "k0: &k0 {v: 1}\n" + "\n".join(f"k{n}: &k{n} {{<<: *k{n - 1}}}" for n in range(1, 1500)),
        "line 2 has an anchor or an alias",
    ),
}


@pytest.mark.parametrize(("content", "problem"), REFUSED.values(), ids=REFUSED.keys())
@requirement("markdown.front-matter-is-safe")
@pytest.mark.usefixtures("parser")
def test_what_cannot_be_trusted_is_refused_with_a_reason_and_the_body_stays(content: str, problem: str) -> None:
    found = read_front_matter(f"---\n{content}\n---\nbody")
    assert found.data == {}
    assert found.body == "body"
    assert found.end_line == content.count("\n") + 3
    assert found.problem is not None
    assert problem in found.problem
    assert ": " in found.problem  # what is wrong: what to do


@pytest.mark.parametrize("depth", [20, 21])
@pytest.mark.usefixtures("parser")
def test_twenty_levels_are_enough(depth: int) -> None:
    content = "a: " + "[" * (depth - 2) + "1" + "]" * (depth - 2)
    assert bool(read_front_matter(f"---\n{content}\n---\n").problem) == (depth > 20)


@requirement("markdown.front-matter-is-safe")
@pytest.mark.parametrize("rest", ["", "\nnote: many lines # said"])  # one by our own reader, one by the YAML parser
def test_values_are_their_texts_where_types_are_not_wanted(rest: str) -> None:
    content = f'version: 1.10\non: no\nnothing:\nquoted: "2"\nlist: [1, true]{rest}'
    read = read_front_matter(f"---\n{content}\n---\n", typed=False)
    assert read.problem is None
    expected = {"version": "1.10", "on": "no", "nothing": "", "quoted": "2", "list": ["1", "true"]}
    assert read.data == expected | ({"note": "many lines"} if rest else {})


@requirement("markdown.front-matter-is-safe")
@pytest.mark.parametrize("comment", ["# nothing", "#\tnothing"])  # one by our own reader, one by the YAML parser
@pytest.mark.parametrize("typed", [True, False])
def test_front_matter_of_comments_alone_says_nothing_and_is_not_a_problem(comment: str, typed: bool) -> None:
    read = read_front_matter(f"---\n{comment}\n---\nbody", typed=typed)
    assert (read.data, read.problem, read.body) == ({}, None, "body")


def test_front_matter_that_is_never_closed_is_text_and_said_so() -> None:
    page = "---\nname: x\nbody without fence"
    assert read_front_matter(page) == FrontMatter(
        {}, 0, page, "the front matter is never closed: end it with a line of only ---"
    )


def test_front_matter_below_a_directive_is_text_and_said_so() -> None:
    page = "%YAML 1.2\n---\nname: x\n---\n"
    found = read_front_matter(page)
    assert (found.data, found.body) == ({}, page)
    assert "must begin with --- on the first line" in (found.problem or "")


@requirement("markdown.cheap-to-import")
def test_simple_front_matter_is_read_without_importing_yaml() -> None:
    page = '---\nname: x\ndescription: "Use it: now"\n# comment\nuser-invocable: true\ntags: [a, b]\nn: 3\n'
    page += 'about: >-\n  more\n  lines\nglobs:\n  [\n    "*.py",\n  ]\n'
    page += 'metadata:\n  version: "1"\nwords:\n  - x y\n---\n'
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from onhand.markdown.frontmatter import read_front_matter\n"
        f"found = read_front_matter({page!r})\n"
        "print(len(found.data), found.problem, 'yaml' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.stderr) == ("9 None False", "")


def test_a_mapping_may_come_from_another_place_in_a_file() -> None:
    assert read_mapping("a: b\na: c", first_line=10) == (
        {},
        "line 11 has the key 'a' again: keep one of the two",
    )


@pytest.mark.skipif("ONHAND_DATA" not in os.environ, reason="ONHAND_DATA does not name the evaluation data")
def test_every_page_of_real_projects_is_read_as_yaml_reads_it() -> None:
    pages = []
    for tree in sorted(Path(os.environ["ONHAND_DATA"], "agent_trees").glob("*.jsonl")):
        pages += [json.loads(line)["text"] for line in tree.read_text(encoding="utf-8").splitlines()]
    assert pages
    for page in pages:
        found = read_front_matter(page)
        if found.end_line:
            content = page.replace("\r\n", "\n").removeprefix("\ufeff").split("\n")[1 : found.end_line - 1]
            assert read_mapping("\n".join(content) + "\n", first_line=2) == (found.data, found.problem)
