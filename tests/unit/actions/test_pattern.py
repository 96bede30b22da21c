"""Does a pattern match the lines it should, quickly whatever it is, and is a bad one refused with its place?"""

import shutil
import subprocess
from time import process_time

import pytest

from onhand.actions.pattern import LEAST_AT_ONCE, MAX_CHARS, NEAR_BYTES, SHORT_BYTES, Pattern, spelled_for_ripgrep
from onhand.errors import InputError
from requirements import requirement

pytestmark = requirement("actions.grep")


def numbers(pattern: str, content: bytes, **options: bool) -> list[int]:
    return [line.number for line in Pattern(pattern, **options).lines(content)]


@pytest.mark.parametrize(
    ("pattern", "content", "expected"),
    [
        ("a", b"a\nb\na", [1, 3]),
        ("^$", b"a\n\nb\n\n", [2, 4]),
        ("^$", b"", []),
        ("^$", b"\n", [1]),
        ("x*", b"a\nb\n", [1, 2]),
        ("a$", b"a\nab\na", [1, 3]),
        (r"\bb", b"ab\nb\n", [2]),
        ("a.b", b"a\nb", []),
        ("(?s)a.b", b"a\nb", []),
        (r"a\s*b", b"a\n b\na b", [3]),
        ("[^x]", b"x\n\ny", [3]),
        (r"a\nb", b"a\nb", []),
        ("é", "é\ne".encode(), [1]),
        ("b", b"\xff\xfe\nb\n", [2]),
        ("a|^b", b"b\nab\nc", [1, 2]),
        ("^a", b"\xef\xbb\xbfa\nb", [1]),
        ("a$|b$", b"a\r\nb\rc\r\n", [1]),
        ("^$", b"\xef\xbb\xbf\r\na\r\n\r\n", [1, 3]),
        (r"a\r$", b"a\r\na\n", [1]),
        (r"[]$^]\$[[:^alpha:]$]\Q$^\E", b"]$$$^", [1]),
        (r"^\p{^L}\P{^L}[\p{^L}]$", b"1a1\r\naaa", [1]),
    ],
)
def test_a_pattern_is_matched_line_by_line(pattern: str, content: bytes, expected: list[int]) -> None:
    assert numbers(pattern, content) == expected


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "is empty"),
        ("(", "missing \\) at character 1"),
        ("a)(b", "unexpected \\) at character 2"),
        (r"\((a)[(]b(c(d)", "missing \\) at character 10"),
        ("*a", "no argument for repetition operator at character 1"),
        ("\\", r"trailing \\ at character 1"),
        ("a\\.b\\", r"trailing \\ at character 5"),
        ("(?<n", "cannot be used"),
        ("(?z)a", "cannot be used"),
        ("a{100000}", "cannot be used"),
        ("a\0b", "NUL"),
        ("a\nb", "line feed"),
        ("\\xZZ", "cannot be used: invalid escape sequence at character 1"),
        ("\\N{BULLET}", "cannot be used"),
        ("(?=a)b", "no look-around"),
        ("(a)\\1", "cannot be used"),
        ("a" * (MAX_CHARS + 1), "characters, more than"),
        ("\\Aa", "is not for lines \\(at character 1\\)"),
        ("a\\z", "is not for lines \\(at character 2\\)"),
        ("(?-m)a$", "is not for lines"),
        ("\ud800", "surrogate"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_its_place(
    pattern: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=reason):
        Pattern(pattern)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("pattern", ["\\\\A", "\\\\\\\\z", "[A]", "(?i)m", "(?:m)", "Amz"])
def test_what_only_looks_like_it_is_taken(pattern: str) -> None:
    Pattern(pattern)
    assert numbers("\\\\A", b"x\\A") == [1]


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|a)*$",
        "(.*)*x",
        "(x+x+)+y",
        "(a|aa)+$",
        "(?i)(a+)+$",
        "(\\p{L}+)+$",
        "^(a?){50}a{50}$",
    ],
)
def test_no_pattern_takes_longer_than_its_text_is_long(pattern: str) -> None:
    short, long = (min(_seconds(pattern, size) for _ in range(3)) for size in (20_000, 160_000))
    assert long < 30 * max(short, 0.002)  # of eight times the text; what is quadratic would take 64 times as long


def _seconds(pattern: str, size: int) -> float:
    compiled = Pattern(pattern)
    began = process_time()
    list(compiled.lines(b"a" * size + b"!"))
    return process_time() - began


LARGE = "|".join(f"(x.{{{count}}}y)" for count in range(700, 720)) + "|^needle$|^$"


def test_a_large_pattern_is_searched_for_piece_by_piece_and_finds_the_same() -> None:
    plain, odd = [b"hay" * 30] * 1500, {0: b"needle", 700: b"needle", 701: b"", 1499: b"needle"}
    content = b"\n".join(odd.get(number, line) for number, line in enumerate(plain))
    assert len(content) > 4 * LEAST_AT_ONCE
    assert numbers(LARGE, content) == [1, 701, 702, 1500]


def test_a_line_that_would_take_too_long_is_told_after_those_before_it() -> None:
    lines = Pattern(LARGE).lines(b"needle\n" + b"x" * (64 << 20))
    assert next(lines).number == 1
    with pytest.raises(InputError, match="too long for so large a pattern"):
        next(lines)


def test_a_search_that_is_over_finds_no_more() -> None:
    over, pattern = iter([False, True]), Pattern("a")
    pattern._at_once = 1  # so that it is asked before each line
    assert len(list(pattern.lines(b"a\na\na", lambda: next(over)))) == 1


def test_a_literal_has_no_signs() -> None:
    assert numbers("a.*[", b"a.*[\nab[", literal=True) == [1]
    assert numbers("(", b"x(", literal=True) == [1]
    assert numbers("A.", b"a.", literal=True, ignore_case=True) == [1]


ODD = r"(?-u:[\xE0-\xEF][\x80-\xBF]{2}|[\xF0-\xF4][\x80-\xBF]{3})"


@requirement("actions.grep-fallback")
@pytest.mark.parametrize(
    ("pattern", "spelled"),
    [
        ("plain text", "plain text"),
        (r"def \w+_of\b", r"def [0-9A-Za-z_]+_of(?-u:\b)"),
        (r"^\s*$", r"(?:^\x{FEFF}?)[\t\f\r ]*(?:\r?$)"),
        (r"a{2,3}?(?:b|c)[a-z0-9_]", r"a{2,3}?(?:b|c)[a-z0-9_]"),
        (r"\.\*\(", r"\.\*\("),
        ("a.", rf"a(?:.|{ODD})"),
        (r"\S[^a]", rf"(?:[^\t\f\r ]|{ODD})(?:[^a]|{ODD})"),
        (r"[\w]", None),
        ("[[:alpha:]]", None),
        ("[a&&b]", None),
        ("[a--z]", None),
        ("(?P<name>a)", None),
        (r"\pL", None),
        ("a{,3}", None),
        (r"\x41", None),
    ],
)
def test_ripgrep_is_asked_only_what_matches_no_less_there(pattern: str, spelled: str | None) -> None:
    assert spelled_for_ripgrep(pattern) == spelled
    if spelled is not None and (program := shutil.which("rg")):
        assert subprocess.run([program, "-e", spelled], input=b"", timeout=60).returncode == 1


@pytest.mark.parametrize("text", ["needle", "x" * SHORT_BYTES, "x" * (SHORT_BYTES + 1), "naïve"])
@pytest.mark.parametrize("ending", [b"", b"\n", b"\nlast\n"])
def test_a_text_is_found_wherever_it_stands(text: str, ending: bytes) -> None:
    size, pattern = len(text.encode()), Pattern(text)
    for start in (0, *range(NEAR_BYTES - size - 2, NEAR_BYTES + 2), 3 * NEAR_BYTES):
        line = b"." * start + text.encode()
        content = b"before\n" + line + b"\nafter" + ending
        assert list(pattern.lines(content)) == [(2, 7, 7 + len(line))]
        assert [found.number for found in pattern.lines(content * 2)] == [2, 4 + ending.count(b"\n")]
        assert not list(pattern.lines(content.replace(text.encode(), text.encode()[:-1])))
