"""Does `onhand skills` list, find, read and check skills, for people and for programs?"""

import json
from pathlib import Path

import pytest

from requirements import requirement

from .conftest import Run

pytestmark = requirement("skills.cli")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture(autouse=True)
def skills(project: Path) -> Path:
    root = project / ".agents/skills"
    body = "# PDF\n\nSee [forms](forms.md).\n\n## Boxes\n\nzebra\n"
    write(root / "pdf/SKILL.md", f"---\nname: pdf\ndescription: Fill in forms.\n---\n{body}")
    write(root / "pdf/forms.md", "# Forms\n\nabout\n\n## Filling\n\nlion\n")
    write(root / "pdf/scripts/fill.py", '"""Fill in."""\n')
    write(root / "deploy/SKILL.md", "---\nname: ship\ndescription: Ship it.\nversion: 1\n---\nship\n")
    return root


def test_list_shows_every_skill_and_warns_of_problems(run: Run) -> None:
    done = run("skills", "list")
    assert done.code == 0
    assert done.out == (
        "pdf  .agents/skills/pdf/SKILL.md\n   Fill in forms.\n"
        "ship  .agents/skills/deploy/SKILL.md\n   Ship it.\n2 skills\n"
    )
    assert "the name 'ship' differs from the directory 'deploy'" in done.err
    listed = json.loads(run("skills", "list", "--json").out)
    assert [(skill["name"], skill["path"]) for skill in listed["skills"]] == [
        ("pdf", ".agents/skills/pdf/SKILL.md"),
        ("ship", ".agents/skills/deploy/SKILL.md"),
    ]
    assert listed["skills"][0]["links"] == [{"text": "forms", "path": "forms.md", "line": 7}]
    assert len(listed["problems"]) == 1


def test_search_says_what_matched_and_why(run: Run) -> None:
    done = run("skills", "search", "zebra", "--explain")
    assert done.out.startswith("1. pdf  .agents/skills/pdf/SKILL.md  score ")
    assert "SKILL.md:9-11  PDF › Boxes" in done.out
    assert "zebra  in text" in done.out
    assert done.out.endswith("1 of 2 skills\n")
    answer = json.loads(run("skills", "search", "forms", "-k", "1", "--json").out)
    (hit,) = answer["hits"]
    assert (hit["name"], answer["skills"], answer["reason"]) == ("pdf", 2, None)
    assert hit["score"] == pytest.approx(sum(match["score"] for match in hit["matches"]))
    assert hit["matches"][0]["layers"][0]["terms"][0]["term"] == "form"


def test_references_are_searched_on_request(run: Run) -> None:
    assert "forms.md:5-7  Forms › Filling" in run("skills", "search", "lion", "--references").out
    answer = json.loads(run("skills", "search", "lion", "--skill", "pdf", "--json").out)
    assert [(hit["skill"], hit["match"]["path"]) for hit in answer["hits"]] == [("pdf", "forms.md")]


def test_a_search_without_a_match_is_a_success(run: Run) -> None:
    done = run("skills", "search", "xyzzy")
    assert (done.code, done.out) == (
        0,
        "none of 2 skills has a word of the query: try other words for the same thing\n",
    )


def test_read_shows_a_skill_then_a_reference_then_a_section(run: Run) -> None:
    done = run("skills", "read", "pdf")
    assert done.out.startswith("# PDF\n\nSee [forms](forms.md).")
    assert "forms.md         forms" in done.out
    assert "scripts/fill.py  pdf:fill  Fill in." in done.out
    assert run("skills", "read", "pdf", "--reference", "forms.md").out.startswith("# Forms")
    part = run("skills", "read", "pdf", "--reference", "forms.md", "--section", "filling", "--json")
    assert json.loads(part.out)["text"] == "## Filling\n\nlion"
    assert run("skills", "read", "pdf", "--section", "Boxes").out == "## Boxes\n\nzebra\n"


def test_what_is_not_there_fails_with_advice(run: Run) -> None:
    unknown = run("skills", "read", "pfd")
    assert (unknown.code, unknown.out) == (1, "")
    assert "did you mean 'pdf'?" in unknown.err
    outside = run("skills", "read", "pdf", "--reference", "/etc/passwd")
    assert outside.code == 2
    assert "leads out of there" in outside.err
    assert run("skills", "search", "x", "-k", "0").code == 2
    assert run("skills", "list", "--root", "nowhere").code == 2


def test_validate_gives_verdicts_and_fails_when_one_is_broken(run: Run) -> None:
    done = run("skills", "validate")
    assert done.code == 1
    assert ".agents/skills/pdf/SKILL.md: valid\n" in done.out
    assert "   error: there is no field 'version'" in done.out
    assert done.out.endswith("1 of 2 skills valid\n")
    assert run("skills", "validate", "pdf").code == 0
    verdicts = json.loads(run("skills", "validate", "--json").out)["skills"]
    assert {one["path"].split("/")[2]: one["valid"] for one in verdicts} == {"deploy": False, "pdf": True}


def test_validate_of_a_project_that_was_named_is_about_that_alone_unless_asked(
    run: Run, project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    write(home / ".agents/skills/own/SKILL.md", "---\nname: own\ndescription: Mine.\n---\nmine\n")
    assert "~/.agents/skills/own/SKILL.md: valid" in run("skills", "validate").out
    assert "own" not in run("skills", "validate", "--root", str(project)).out
    assert "~/.agents/skills/own/SKILL.md: valid" in run("skills", "validate", "--root", str(project), "--user").out


def test_catalog_prints_the_block_within_the_budget(run: Run, project: Path) -> None:
    done = run("skills", "catalog")
    assert "<name>pdf</name>" in done.out
    told = json.loads(run("skills", "catalog", "--window", "5000", "--json").out)
    assert told["max_chars"] == 400
    assert len(told["text"]) <= 400
    assert told["shortened"] > 0
    write(project / "onhand.toml", "[skills]\ncatalog_max_chars = 10\n")
    assert "not even one skill fits in 10 characters" in run("skills", "catalog").out


def test_a_root_may_be_a_project_a_directory_of_skills_or_a_skill(run: Run, project: Path, skills: Path) -> None:
    for root, path in [
        (str(project), ".agents/skills/pdf/SKILL.md"),
        (".agents/skills", "pdf/SKILL.md"),
        (".agents/skills/pdf", "SKILL.md"),
    ]:
        answer = json.loads(run("skills", "search", "zebra", "--root", root, "--json").out)
        assert [hit["path"] for hit in answer["hits"]] == [path]


def test_settings_are_followed(run: Run, project: Path) -> None:
    write(project.parent / ".claude/skills/mine/SKILL.md", "---\nname: mine\ndescription: My zebra.\n---\n")
    write(project / "more/other/SKILL.md", "---\nname: other\ndescription: Other zebra.\n---\n")
    assert "~/.claude/skills/mine/SKILL.md" in run("skills", "list").out
    write(project / "onhand.toml", '[skills]\nroots = ["more"]\nuser = false\nusual = false\nlimit = 1\n')
    done = run("skills", "list")
    assert done.out == "other  more/other/SKILL.md\n   Other zebra.\n1 skill\n"


def test_nothing_in_a_skill_reaches_the_terminal_as_an_order(run: Run, skills: Path) -> None:
    write(
        skills / "evil/SKILL.md",
        '---\nname: evil\ndescription: "a\\x1b[2Jb"\n---\n# \x1b]52;c;x\x07\n\nzebra\x1b[31m\n',
    )
    write(skills / "evil\x1b[2J\n/SKILL.md", "---\nname: e2\ndescription: zebra\n---\n")
    for words in (["list"], ["search", "zebra"], ["read", "evil"], ["validate"], ["catalog"], ["list", "--json"]):
        done = run("skills", *words)
        assert "\x1b" not in done.out + done.err
        assert "\x07" not in done.out + done.err


def test_no_skills_are_reported_with_what_to_do(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for verb in ("list", "validate", "catalog"):
        done = run("skills", verb, "--root", str(tmp_path / "empty"))
        assert done.code == 0
        assert "put one in .agents/skills" in done.out
