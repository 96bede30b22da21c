"""Questions that differ in a detail never share an answer, however near their vectors are.

Every value of a kind is asked in several sentences and compared with every other value of its kind.
"""

from array import array
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onhand.cache.cache import SemanticCache
from onhand.cache.guards import disagreement
from onhand.embed.embedder import Kind
from requirements import requirement

pytestmark = requirement("cache.details")


class Same:
    """An embedder to which all texts mean the same."""

    name, prompt_format, min_score, dimension = "same", "plain", None, 2

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> "list[array[float]]":
        return [array("f", [1, 0]) for _ in texts]


SENTENCES = ("explain what {} does", "{} please", "tell me about {}", "is ({}) right, or not?", "what: {}!")
KINDS = {
    "paths": [
        "src/a.py", "src/b.py", "src/a.pyi", "src/A.py", "lib/a.py", "a.py", "./src/a.py", "../src/a.py", "/src/a.py",
        "src/a/py", "src\\a.py", "~/a.py", "C:\\a.py", "src/a", "src/*.py", "src/a.py:3", "docs/adr",
    ],
    "file names": ["README.md", "README.rst", "readme.txt", ".env", ".env.local", "Makefile.am", "main.c", "main.h"],
    "addresses": [
        "https://x.org/a", "https://x.org/b", "http://x.org/a", "https://y.org/a", "https://x.org/a?q=1",
        "https://x.org/a?q=2", "https://x.org/a#top", "https://x.org:81/a", "ftp://x.org/a", "localhost:8080",
        "localhost:8081", "127.0.0.1", "127.0.0.2", "fe80::1", "fe80::2",
    ],
    "e-mail addresses": ["ann@x.org", "bob@x.org", "ann@y.org", "ann+b@x.org", "a.nn@x.org"],
    "times": [
        f"{number} {unit}" for number in ("5", "50", "0.5") for unit in ("ns", "µs", "ms", "s", "min", "h", "days")
    ],
    "masses": [f"{number} {unit}" for number in ("5", "5.5") for unit in ("mcg", "mg", "g", "kg", "oz", "lb")],
    "sizes": ["100 MB", "100 GB", "100 MiB", "100 Mb", "100 kB", "1000 MB", "10.0 MB", "100 bytes", "100 bits"],
    "spoons": ["2 teaspoons", "2 tablespoons", "2 cups", "2 drops", "3 cups", "2 liters", "2 ml"],
    "temperatures": ["5 °C", "5 °F", "-5 °C", "5 K", "15 °C"],
    "speeds": ["5 km/h", "5 m/s", "5 mph", "5 km", "5 km/s"],
    "money": ["$5", "€5", "£5", "$5.50", "$50", "5 yen", "5 rupees", "$5 million", "$5 billion"],
    "magnitudes": ["5", "5k", "5 million", "5 billion", "5 trillion", "5 lakh", "5 crore", "500", "5%", "five dozen"],
    "counts": ["5 apples", "5 oranges", "6 apples", "3 apples and 2 pears", "2 apples and 3 pears"],
    "bounds": [
        "5 items", "more than 5 items", "less than 5 items", "at least 5 items", "at most 5 items", "exactly 6 items",
        "more than 6 items",
    ],
    "comparisons": ["x > y", "x < y", "x >= y", "x <= y", "y > x", "x == y", "x != y", "x = y", "x === y"],
    "operators": ["a1 && b1", "a1 || b1", "a1 | b1", "a1 + b1", "a1 -> b1", "b1 -> a1", "a1 ^ b1", "a1 % b1"],
    "identifiers": [
        "read_file", "write_file", "readFile", "writeFile", "READ_FILE", "os.path", "os.sep", "std::map", "std::set",
        "foo()", "bar()", "__init__", "$HOME", "$PATH", "%PATH%", "@cache", "x[0]", "x[1]", "C++", "C#", "F#",
    ],
    "inline code": ["`x`", "`y`", "`x()`", "`x == 1`", "`x != 1`", "`if x: y`", "`if x:  y`", "`--force`", "`X`"],
    "flags": ["--force", "--hard", "-f", "-F", "--no-force", "-x", "--depth=1", "--depth=2"],
    "versions": ["1.2", "1.3", "1.2.3", "1.20", "v2", "2.0-rc1", "2.0-rc2", "2.0-beta", "12"],
    "quoted texts": ['"on hand"', '"on time"', "'off hand'", "“in hand”", "«by hand»", '"5 s"', '"5 ms"', '";"', '","'],
    "dates": [
        "2025-01-02", "2025-02-01", "2025/01/02", "Jan 2", "Feb 2", "jan 3", "monday", "tuesday", "10:30", "10:45",
        "5 am", "5 pm", "2 march", "2 may", "Q1", "Q2", "before 2010", "after 2010", "since 2010", "2010",
    ],
    "hashes": [
        "deadbeef", "cafebabe", "a1b2c3d", "a1b2c3e", "9f86d081884c7d65", "9f86d081884c7d66", "sha256", "sha512",
        "550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440001",
    ],
    "negations": ["tea with milk", "tea without milk", "tea with milk but no sugar"],
    "directions": ["copy a.txt to b.txt", "copy b.txt to a.txt", "copy a.txt from b.txt"],
    "divisions by words": ["divide 10 by 5", "divide 5 by 10"],
    "conversions": ["convert km to miles", "convert miles to km", "convert 5 km to miles", "convert 5 miles to km"],
    "divisions": ["16:9", "4:3", "1/2", "1/3", "5-10", "10-5"],
    "ordinals": ["the 3rd", "the 4th", "the fifth", "the seventh"],
    "letters": ["vitamin b", "vitamin c", "vitamin d", "vitamin B12"],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_two_values_of_a_kind_never_agree(kind: str) -> None:
    for one, other in combinations(KINDS[kind], 2):
        for sentence in SENTENCES:
            asked, cached = sentence.format(one), sentence.format(other)
            assert disagreement(asked, cached), (asked, cached)
            assert disagreement(asked, cached) == disagreement(cached, asked)


@pytest.mark.parametrize("kind", KINDS)
def test_no_question_is_answered_from_another_with_a_default_cache(kind: str) -> None:
    for sentence in SENTENCES:
        for cached in KINDS[kind]:
            by_meaning, by_words = SemanticCache(Same()), SemanticCache()
            for cache in (by_meaning, by_words):
                cache.store(sentence.format(cached), cached)
                for asked in KINDS[kind]:
                    entry = cache.lookup(sentence.format(asked)).entry
                    assert entry is None or entry.response == asked


@pytest.mark.parametrize(
    "spellings",
    [
        ["5 s", "5s", "5 sec", "5 seconds", "five seconds"],
        ["5 min", "5 minutes", "5 mins"],
        ["5 KG", "5 kg", "5 kilograms", "5.0 kg"],
        ["5 lbs", "5 lb", "5 pounds"],
        ["$5", "5 dollars", "five dollars"],
        ["10k", "10,000", "10 thousand", "10000"],
        ["2 million", "2,000,000", "2000000"],
        ["5 percent", "5%", "5 %"],
        ["5 pm", "5pm", "5 p.m.", "5 PM"],
        ["v1.2", "1.2"],
        ["v2.0-rc1", "2.0-rc1"],
        ["read_file", "read file"],
        ["`foo`", "foo"],
        ['"on hand"', "on hand"],
        ["a == b", "a==b"],
        ["iPhone 7", "iphone 7"],
        ["17-year-old", "17 year old"],
        ["https://x.org", "HTTPS://X.org/"],
        ["Jan 2", "January 2", "jan 2"],
        ["the 3rd", "the third"],
        ["more than 5 kg", "over 5 kg"],
        ["issue #5", "issue 5"],
        ["C++", "c++"],
    ],
)  # fmt: skip
def test_spellings_of_one_detail_agree(spellings: list[str]) -> None:
    for one, other in combinations(spellings, 2):
        for sentence in ("how about {} please", "tell me about {}."):
            assert disagreement(sentence.format(one), sentence.format(other)) is None, (one, other)


NAMES = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=8)
NUMBERS = st.integers(2, 10**6)  # 1 may be spelled as "one", which is also a pronoun
UNITS = st.sampled_from("ns µs ms s min h days mm cm m km mg g kg kB MB GB MiB Hz kHz V W A % px mph €".split())
VALUES = {
    "path": st.builds("/".join, st.lists(NAMES, min_size=2, max_size=4)),
    "file": st.builds("{}.{}".format, NAMES, st.sampled_from("py pyi js md c h rs toml".split())),
    "address": st.builds("https://{}.org/{}?{}={}".format, NAMES, NAMES, NAMES, NUMBERS),
    "e-mail": st.builds("{}@{}.org".format, NAMES, NAMES),
    "quantity": st.builds("{} {}".format, NUMBERS, UNITS),
    "version": st.builds("{}.{}.{}".format, NUMBERS, NUMBERS, NUMBERS),
    "identifier": st.builds("{}_{}".format, NAMES, NAMES),
    "camel case": st.builds("{}{}".format, NAMES, NAMES.map(str.title)),
    "call": st.builds("{}()".format, NAMES),
    "flag": st.builds("--{}".format, NAMES),
    "variable": st.builds("${}".format, NAMES),
    "hash": st.integers(0, 2**160).map("{:040x}".format),
    "date": st.dates().map(str),
    "comparison": st.builds("{} {} {}".format, NAMES, st.sampled_from("< > <= >= == !=".split()), NAMES),
    "code": st.builds("`{} {} {}`".format, NAMES, st.sampled_from("+ - * / % & | ^".split()), NAMES),
    "quotation": st.builds('"{} {}"'.format, NAMES, NAMES),
}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data(), sentence=st.sampled_from(SENTENCES))
def test_generated_values_of_a_kind_never_agree(kind: str, data: st.DataObject, sentence: str) -> None:
    one, other = data.draw(VALUES[kind]), data.draw(VALUES[kind])
    assume(one != other)
    assert disagreement(sentence.format(one), sentence.format(other))
    assert disagreement(sentence.format(one), sentence.format(one)) is None


@given(data=st.data(), sentence=st.sampled_from(SENTENCES))
def test_a_detail_in_only_one_of_two_questions_separates_them(data: st.DataObject, sentence: str) -> None:
    kind = data.draw(st.sampled_from(sorted(set(VALUES) - {"quotation"})))
    assert disagreement(sentence.format(data.draw(VALUES[kind])), sentence.format("it"))
