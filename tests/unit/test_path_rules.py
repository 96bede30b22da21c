"""Patterns in the form of .gitignore, and the user's rules for paths."""

import pytest

from onhand.errors import InputError
from onhand.path_rules import PathPatterns, PathRules, literal_paths


@pytest.mark.parametrize("path", ["a.db", "deep/A.DB", "private", "x/private", "caf\u00c9", "cafe\u0301", "a.\u200bdb"])
def test_a_path_matches_by_itself_in_any_spelling_that_a_file_system_takes_for_the_same(path: str) -> None:
    assert PathPatterns(["*.db", "private/", "café"]).match(path)


def test_what_is_in_a_directory_that_matches_is_covered_and_does_not_match() -> None:
    patterns = PathPatterns(["private/"])
    assert patterns.cover("x/private/deep/a.txt")
    assert not patterns.match("x/private/deep/a.txt")


def test_an_exception_takes_a_name_out_again() -> None:
    patterns = PathPatterns([".env.*", "!.env.example"])
    assert patterns.match(".env.local")
    assert not patterns.match(".env.example")


def test_an_exception_among_what_is_closed_is_refused_and_says_where_it_belongs() -> None:
    with pytest.raises(InputError, match=r"'!a\.db' would open a closed path: .* workspace\.allow"):
        PathRules(deny=("*.db", "!a.db")).validate()
    with pytest.raises(InputError, match="would open a closed path"):
        PathRules(protect=("!vendor/",)).validate()
    assert PathRules(allow=("!a",)).validate() == PathRules(allow=("!a",))


def test_what_names_one_path_is_distinguished_from_patterns_comments_and_what_leads_elsewhere() -> None:
    lines = [
        "/conf/prod.toml",
        "secrets.yml ",
        "private/",
        "*.db",
        "a?b",
        "[ab]",
        "a\\b",
        "# x",
        "a/../b",
        "",
        "/",
        "./c",
    ]
    assert [*literal_paths(lines)] == ["conf/prod.toml", "secrets.yml", "private"]
