"""What does a SKILL.md say, and does it keep to the specification?"""

import pytest

from onhand.corpora.skill_files import LinkedFile, SkillText, SkillVerdict, parse_skill, validate_skill
from requirements import requirement

GOOD = "---\nname: pdf\ndescription: Fill in PDF forms.\n---\n# PDF\n\nSee [forms](references/forms.md).\n"


def loaded(front: str, directory: str = "pdf") -> SkillText:
    return parse_skill(f"---\n{front}\n---\nbody\n", directory)


def errors(front: str, directory: str = "pdf") -> tuple[str, ...]:
    return validate_skill(f"---\n{front}\n---\nbody\n", directory).errors


@requirement("skills.validate")
def test_a_skill_within_the_specification_is_valid_and_loads_without_a_word() -> None:
    assert validate_skill(GOOD, "pdf") == SkillVerdict((), ())
    skill = parse_skill(GOOD, "pdf")
    assert (skill.name, skill.description, skill.warnings, skill.refused) == ("pdf", "Fill in PDF forms.", (), None)
    assert skill.links == (LinkedFile("forms", "references/forms.md", 7),)  # a line of the file, not of its text
    assert skill.body == "# PDF\n\nSee [forms](references/forms.md).\n"


@requirement("skills.validate")
def test_every_field_of_the_specification_is_read_as_text() -> None:
    fields = (
        "name: pdf\ndescription: d\nlicense: MIT\ncompatibility: Needs Python 3.10\n"
        "metadata:\n  version: 1.10\n  on: yes\nallowed-tools: Read Bash(git add *) Write"
    )
    skill = loaded(fields)
    assert errors(fields) == ()
    assert (skill.license, skill.compatibility) == ("MIT", "Needs Python 3.10")
    assert skill.metadata == {"version": "1.10", "on": "yes"}
    assert skill.allowed_tools == ("Read", "Bash(git add *)", "Write")


# Verdicts as those of skills-ref 0.1.1, the specification's own validator, which was run on the same texts.
@requirement("skills.validate")
@pytest.mark.parametrize(
    ("front", "directory", "said"),
    [
        ("name: x\ndescription: d", "x", None),
        ("name: été\ndescription: d", "été", None),
        ("name: 技能\ndescription: d", "技能", None),
        ("name: ﬁ\ndescription: d", "fi", None),
        ("name: 1\ndescription: 2", "1", None),
        (f"name: {'a' * 64}\ndescription: {'d' * 1024}", "a" * 64, None),
        ("name: x\ndescription: >-\n  two\n  lines", "x", None),
        ("name: x\ndescription: d\nlicense:", "x", None),
        ("name: x\ndescription: d\nmetadata:\n  a: 1", "x", None),
        (f"name: x\ndescription: d\ncompatibility: {'c' * 500}", "x", None),
        ("name: X\ndescription: d", "X", "capital letters"),
        ("name: -x\ndescription: d", "-x", "hyphen"),
        ("name: x-\ndescription: d", "x-", "hyphen"),
        ("name: a--b\ndescription: d", "a--b", "two hyphens"),
        ("name: a_b\ndescription: d", "a_b", "letters, digits and hyphens"),
        ("name: a b\ndescription: d", "a b", "letters, digits and hyphens"),
        ('name: "<b>x"\ndescription: d', "<b>x", "letters, digits and hyphens"),
        (f"name: {'a' * 65}\ndescription: d", "a" * 65, "65 characters"),
        ("name: x\ndescription: d", "y", "directory 'y'"),
        ("name:\ndescription: d", "x", "the name is empty"),
        ("name: [x]\ndescription: d", "x", "the name is empty"),
        ("description: d", "x", "name is missing"),
        ("name: x", "x", "description is missing"),
        ("name: x\ndescription:", "x", "the description is empty"),
        ('name: x\ndescription: "  "', "x", "the description is empty"),
        ("name: x\ndescription: {a: b}", "x", "the description is empty or not text"),
        (f"name: x\ndescription: {'d' * 1025}", "x", "1,025 characters"),
        (f"name: x\ndescription: d\ncompatibility: {'c' * 501}", "x", "501 characters"),
        ("name: x\ndescription: d\ncompatibility: [c]", "x", "compatibility"),
        ("name: x\ndescription: d\nversion: 1", "x", "'version'"),
        ("name: x\ndescription: use when: it rains", "x", "is not YAML"),
        ("name: x\nname: x\ndescription: d", "x", "again"),
        ("name: &a x\ndescription: *a", "x", "anchor"),
        ("name: !t x\ndescription: d", "x", "tag"),
    ],
)
def test_verdicts_are_those_of_the_specification(front: str, directory: str, said: str | None) -> None:
    found = errors(front, directory)
    assert not found if said is None else any(said in error for error in found), found


@requirement("skills.validate")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no front matter"),
        ("# Only text\n", "no front matter"),
        ("---\nname: x\ndescription: d\n", "never closed"),
        ("---\n- a\n---\n", "not made of"),
        ("---\n---\n", "name is missing"),
        ("%YAML 1.2\n---\nname: x\ndescription: d\n---\n", "%YAML"),
    ],
)
def test_a_file_without_usable_front_matter_is_invalid_and_not_loaded(text: str, said: str) -> None:
    assert any(said in error for error in validate_skill(text, "x").errors)
    assert parse_skill(text, "x").refused


@requirement("skills.validate")
@pytest.mark.parametrize("text", ["\ufeff" + GOOD, GOOD.replace("\n", "\r\n"), "\ufeff" + GOOD.replace("\n", "\r\n")])
def test_marks_and_line_ends_of_windows_are_not_a_mistake(text: str) -> None:
    read = text.removeprefix("\ufeff")  # which reading a file takes off
    assert validate_skill(read, "pdf").errors == ()
    assert parse_skill(read, "pdf").description == "Fill in PDF forms."


def test_block_scalars_are_read_whole() -> None:
    assert loaded("name: pdf\ndescription: >-\n  Fill in\n  forms.").description == "Fill in forms."
    assert (
        loaded("name: pdf\ndescription: |\n  Fill in: forms.\n  Also sign.").description
        == "Fill in: forms.\nAlso sign."
    )


@requirement("skills.validate")
@pytest.mark.parametrize(
    ("front", "name", "said"),
    [
        ("name: other\ndescription: d", "other", "differs from the directory"),
        (f"name: {'a' * 65}\ndescription: d", "a" * 65, "65 characters"),
        ("name: PDF\ndescription: d", "PDF", "capital letters"),
        ("description: d", "pdf", "loaded as 'pdf'"),
        ("name: [x]\ndescription: d", "pdf", "loaded as 'pdf'"),
        ('name: "a\\nb"\ndescription: d', "pdf", "loaded as 'pdf'"),
        (f"name: {'a' * 5000}\ndescription: d", "pdf", "loaded as 'pdf'"),
        ("name: pdf\ndescription: use when: it rains", "pdf", "read as if the value were in quotes"),
    ],
)
def test_loading_overlooks_what_it_can_and_says_so(front: str, name: str, said: str) -> None:
    skill = loaded(front)
    assert (skill.name, skill.refused) == (name, None)
    assert said in " ".join(skill.warnings)


def test_a_value_with_a_colon_is_read_whole_beside_others() -> None:
    front = 'name: pdf\ndescription: Use when: it\'s "raining": always\nlicense: MIT: yes'
    skill = loaded(front)
    assert (skill.description, skill.license) == ('Use when: it\'s "raining": always', "MIT: yes")


@requirement("skills.validate")
@pytest.mark.parametrize(
    ("front", "said"),
    [
        ("name: pdf", "no description"),
        ("name: pdf\ndescription: ''", "description is empty"),
        ("name: pdf\ndescription: [a]", "description is a list"),
        ("name: pdf\ndescription: {a: b}", "description is a mapping"),
        ("name: pdf\ndescription: &a d", "anchor"),
        ("name: [", "is not YAML"),
        ("name: pdf\ndescription: \x07", "control character"),
    ],
)
def test_what_has_no_description_or_cannot_be_read_is_not_loaded(front: str, said: str) -> None:
    assert said in str(loaded(front).refused)


def test_hidden_characters_are_marked_and_make_a_skill_invalid() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore")
    assert loaded(f"name: pdf\ndescription: ok{hidden}").description == "ok[U+E0069 and 5 more hidden characters]"
    (error,) = validate_skill("---\nname: pdf\ndescription: o\u200bk\n---\n", "pdf").errors
    assert "line 3, column 15: U+200B ZERO WIDTH SPACE" in error
    assert validate_skill("---\nname: pdf\ndescription: 👩\u200d💻\n---\n", "pdf").errors == ()  # one emoji of two


def test_what_the_specification_allows_but_a_reader_should_know_is_a_warning() -> None:
    front = 'name: claude-pdf\ndescription: d\nallowed-tools: "*"\nmetadata:\n  a:\n    b: c'
    verdict = validate_skill(f"---\n{front}\n---\n" + "line of text\n" * 2000, "claude-pdf")
    assert verdict.errors == ()
    told = " ".join(verdict.warnings)
    assert all(word in told for word in ("reserved", "every tool", "metadata is not", "2,001 lines", "tokens"))
