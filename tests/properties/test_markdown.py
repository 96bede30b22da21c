"""What holds for every page?"""

import json
from itertools import pairwise

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from onhand.document import Section
from onhand.markdown.frontmatter import read_front_matter
from onhand.markdown.links import extract_links
from onhand.markdown.page import read_outline, split_sections
from onhand.markdown.strict_yaml import read_mapping
from requirements import requirement

PIECES = [
    *(
        "# ",
        "## ",
        "#",
        "---",
        "===",
        "```",
        "~~~",
        "````",
        "    ",
        "\t",
        "- ",
        "1. ",
        "> ",
        "<!--",
        "-->",
        "<pre>",
    ),
    *(
        "[",
        "]",
        "(",
        ")",
        "![",
        "<",
        ">",
        "`",
        "``",
        "\\",
        "*",
        "_",
        "[a](b.md)",
        "[id]: c.md",
        "[id]",
        "<d:e>",
    ),
    *(
        "\n",
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        " ",
        "word",
        "two words",
        "é",
        "e\u0301",
        "\u200d",
        "\ufeff",
        "\u2028",
    ),
    *("---\n", "key: value\n", "\x00", "\x0c", "\U0001f469", '"', "'", "%20", "#x"),
]
pages = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=60).map("".join)


def lines_of(page: str) -> list[str]:
    """The lines of a file, as an editor counts them."""
    return page.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def body_lines(page: str) -> set[int]:
    """The lines that say something, outside of front matter."""
    outline = read_outline(page)
    skipped = outline.text.count("\n", 0, outline.body)
    return {number for number, line in enumerate(lines_of(page), 1) if number > skipped and line.strip()}


@given(pages)
@example("")
@example("---\na: b\n---")
@requirement("markdown.sections-lose-nothing")
def test_sections_hold_every_line_once_and_point_back_at_it(page: str) -> None:
    lines = lines_of(page)
    held: list[int] = []
    for section in split_sections(page, max_chars=10**9):
        assert section.text == "\n".join(lines[section.first_line - 1 : section.last_line])
        assert lines[section.first_line - 1].strip()
        assert lines[section.last_line - 1].strip()
        assert section.heading == section.heading_path[-1]
        held += range(section.first_line, section.last_line + 1)
    assert len(held) == len(set(held))
    assert body_lines(page) <= set(held)


@given(pages, st.integers(1, 60))
@requirement("markdown.sections-lose-nothing")
def test_parts_are_short_and_together_lose_no_text(page: str, max_chars: int) -> None:
    lines = lines_of(page)
    wholes = split_sections(page, max_chars=10**9)
    parts = split_sections(page, max_chars=max_chars)
    assert shown(parts) == shown(wholes)
    assert {part.heading_path for part in parts} <= {whole.heading_path for whole in wholes}
    for part in parts:
        assert 0 < len(part.text) <= max_chars
        assert part.text.strip()
        assert part.text in "\n".join(lines[part.first_line - 1 : part.last_line])
    for above, below in pairwise(parts):
        assert above.last_line <= below.first_line


@given(pages, st.integers(1, 60))
@example("# long heading\n```\nx\n\ny\n```\nafter", 16)
@requirement("markdown.code-stays-whole")
def test_code_that_fits_stays_in_one_part(page: str, max_chars: int) -> None:
    outline = read_outline(page)
    parts = [part.text for part in split_sections(page, max_chars=max_chars)]
    for start, end in outline.verbatim:
        code = outline.text[start:end].rstrip()
        if end - start <= max_chars:
            assert any(code in part for part in parts)


def shown(sections: list[Section]) -> str:
    return "".join("".join(section.text.split()) for section in sections)


@given(pages)
def test_line_ends_make_no_difference(page: str) -> None:
    unix = page.replace("\r\n", "\n").replace("\r", "\n")
    for newline in ("\r\n", "\r"):
        other = unix.replace("\n", newline)
        assert split_sections(other) == split_sections(unix)
        assert extract_links(other, include_external=True) == extract_links(unix, include_external=True)
        assert read_front_matter(other) == read_front_matter(unix)


@given(pages)
@requirement("markdown.links")
def test_a_link_begins_on_the_line_it_names(page: str) -> None:
    lines = lines_of(page)
    links = extract_links(page, include_external=True)
    for link in links:
        assert {"[", "<"} & set(lines[link.line - 1])
        assert link.target.startswith("mailto:") or link.target in "\n".join(lines)
    assert [link.line for link in links] == sorted(link.line for link in links)
    assert set(extract_links(page)) <= set(links)


words = st.text("abc.md/-_() é%", min_size=1, max_size=12).filter(lambda word: word.strip() == word)


@given(st.lists(st.tuples(words, words), max_size=5))
def test_a_written_link_is_found_again(written: list[tuple[str, str]]) -> None:
    assume(all("_" not in text for text, _ in written))
    page = "\n".join(f"- [{text}](<{target}>)" for text, target in written)
    found = [(" ".join(text.split()), target, line) for line, (text, target) in enumerate(written, 1)]
    links = extract_links(page, include_external=True)
    assert [(link.text, link.target, link.line) for link in links] == found


yaml_pieces = st.sampled_from(
    [
        *(
            "a",
            "b",
            "key",
            ":",
            ": ",
            " ",
            "  ",
            "\n",
            "\n",
            "- ",
            "[",
            "]",
            "{",
            "}",
            ", ",
            "'",
            '"',
            "#",
            " #",
            "|",
        ),
        *(
            ">",
            "&a",
            "*a",
            "!x",
            "!!str ",
            "<<",
            "? ",
            "%",
            "@",
            "`",
            "\t",
            "1",
            "0x",
            "1.5",
            "e9",
            "true",
            "null",
        ),
        *("~", "---", "...", "\\", "\\n", "(", "no", "é", "\x85", "\u2028", "\x00", "\ud800", "\ufeff"),
    ]
)
yaml_text = st.lists(st.one_of(yaml_pieces, st.text(max_size=3)), max_size=30).map("".join)


@given(yaml_text)
@requirement("markdown.front-matter-is-safe")
def test_no_front_matter_raises_and_what_it_says_fits_into_json(content: str) -> None:
    found = read_front_matter(f"---\n{content}\n---\nbody")
    json.dumps(found.data, allow_nan=False)
    assert found.body.endswith("body")
    assert not (found.problem and found.data)


lines = st.tuples(
    st.sampled_from(["a", "b-c", "d_e", "F", "g1", "#h", "", "i "]),
    st.sampled_from([":", ": ", ":  ", " : ", ""]),
    st.lists(yaml_pieces.filter(lambda piece: "\n" not in piece), max_size=6).map("".join),
    st.sampled_from(["", " ", "  ", " # x"]),
).map("".join)


@given(st.lists(lines, max_size=5).map("\n".join))
@example("a: [b , c]")
@example("a: (b: c)")
@example("a: b:")
@example("a: b :c #")
@example('a: "b" ')
@example("a:\n\nb: 0o8")
@requirement("markdown.front-matter-values")
def test_the_short_way_reads_what_yaml_reads(content: str) -> None:
    """Simple front matter is read without PyYAML; PyYAML must see the same in it."""
    page = f"---\n{content}\n---\n"
    found = read_front_matter(page)
    assume(found.end_line == content.count("\n") + 3)
    assume("control character" not in (found.problem or ""))
    assert (found.data, found.problem) == read_mapping(content + "\n", first_line=2)


deeper_lines = st.tuples(
    st.sampled_from(["", "", "  ", "  ", "   ", "    "]),
    st.sampled_from(["", "a: ", "b:", "c:", "- ", "-", "[", "]", "# "]),
    st.sampled_from(
        ["", ">", ">-", "|", "|-", "|+", ">2", "x y", "x,", "[x, 'y z']", '"x", ', "'x", '"', "1.0", "x: y"]
    ),
    st.sampled_from(["", "", " ", " #", ",", "]", "\t"]),
).map("".join)


@given(st.lists(deeper_lines, max_size=7).map("\n".join), st.booleans())
@example("a: >-\n  x\n  y\nb: |\n   x y\n   # z", True)
@example("a: >\n  x\n   y\n  z", True)
@example("a:\n  [\n    'x y',\n    z,\n  ]", True)
@example("a: x\n  y\nb:\n  c: 1\n  d: [e]", False)
@example("a:\n  - x y\n  - 1.10\n  - 'z'", False)
@example("a: [x,\n y\n z]", True)
@requirement("markdown.front-matter-values")
def test_the_short_way_reads_values_of_several_lines_as_yaml_does(content: str, typed: bool) -> None:
    page = f"---\n{content}\n---\n"
    found = read_front_matter(page, typed=typed)
    assume(found.end_line == content.count("\n") + 3)
    assume(found.data or found.problem)  # of nothing, YAML says nothing, which is a text when all are
    assert (found.data, found.problem) == read_mapping(content + "\n", first_line=2, typed=typed)


@pytest.mark.skipif(not hasattr(yaml, "CLoader"), reason="this PyYAML was built without libyaml")
@given(st.lists(lines, max_size=5).map("\n".join))
def test_both_parsers_of_pyyaml_read_the_same(content: str) -> None:
    """They differ in what they refuse (libyaml lets `a: |#` pass), never in what they read."""
    found = read_front_matter(f"---\n{content}\n---\n")
    assume(found.end_line == content.count("\n") + 3)
    assume("control character" not in (found.problem or ""))
    with_c, problem_with_c = read_mapping(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(yaml, "CLoader")
        without, problem_without = read_mapping(content)
    assume(not problem_with_c and not problem_without)
    assert with_c == without
