"""Are skills found wherever they are kept, by whatever they say, and read step by step and no further?"""

import os
import threading
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from onhand.corpora import skill_files
from onhand.corpora.skill_reading import MAX_LISTED
from onhand.corpora.skills import Skills
from onhand.errors import EmbedderError, InputError, NotFound
from onhand.markdown.links import MAX_LINKS
from onhand.tools.catalog import Catalog
from requirements import requirement

from .conftest import opened


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def skill(root: Path, name: str, description: str = "d", body: str = "", more: str = "") -> Path:
    """A skill in a root; the path of its directory."""
    front = f"---\nname: {name.rpartition('/')[2]}\ndescription: {description}\n{more}---\n"
    return write(root / name / "SKILL.md", front + body).parent


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(home: Path) -> Path:
    (home / "project").mkdir()
    return home / "project"


def names(skills: Skills) -> dict[str, str]:
    return {skill.name: skill.path for skill in skills.all()}


def reasons(skills: Skills) -> dict[str, str]:
    return {problem.path: problem.reason for problem in skills.problems()}


def found(skills: Skills, query: str) -> list[str]:
    return [hit.name for hit in skills.search(query, 10).hits]


class Directions:
    """An embedder that knows two directions: weather and everything else; it counts what it is given."""

    name, dimension, prompt_format = "directions", 2, "plain"
    min_score: float | None = None

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], kind: str = "document") -> "list[array[float]]":
        self.texts += texts
        words = ("rain", "snow", "umbrella", "precipitation")
        return [array("f", (1.0, 0.1) if any(word in text for word in words) else (0.1, 1.0)) for text in texts]


# Where they are


@requirement("skills.scan")
def test_skills_are_found_in_the_usual_places_of_the_project_and_then_of_the_user(project: Path, home: Path) -> None:
    for place, name in [
        (project / ".agents/skills", "one"),
        (project / ".claude/skills", "two"),
        (project / ".codex/skills", "three"),
        (home / ".agents/skills", "four"),
        (home / ".opencode/skills", "five"),
        (project / ".git/skills", "never"),
        (project / "skills", "not-usual"),
    ]:
        skill(place, name)
    assert names(Skills(project, home=str(home))) == {
        "five": "~/.opencode/skills/five/SKILL.md",
        "four": "~/.agents/skills/four/SKILL.md",
        "one": ".agents/skills/one/SKILL.md",
        "three": ".codex/skills/three/SKILL.md",
        "two": ".claude/skills/two/SKILL.md",
    }
    assert set(names(Skills(project))) == {"one", "two", "three"}


@requirement("skills.scan")
def test_of_two_skills_of_a_name_the_first_counts_and_the_other_is_reported(project: Path, home: Path) -> None:
    skill(home / ".agents/skills", "pdf", "the user's own")
    skill(project / ".claude/skills", "pdf", "the client's")
    skill(project / ".agents/skills", "pdf", "the shared one")
    skill(project / "vendor", "pdf", "the named one")
    skills = Skills(project, home=str(home), roots=["vendor"])
    assert names(skills) == {"pdf": "vendor/pdf/SKILL.md"}
    told = reasons(skills)
    assert set(told) == {f"{place}/pdf/SKILL.md" for place in (".agents/skills", ".claude/skills", "~/.agents/skills")}
    assert "vendor/pdf/SKILL.md has the name 'pdf' and comes first" in told[".agents/skills/pdf/SKILL.md"]
    assert [hit.description for hit in skills.search("pdf").hits] == ["the named one"]
    assert found(skills, "client's") == []
    (project / "vendor/pdf/SKILL.md").unlink()
    assert names(skills) == {"pdf": ".agents/skills/pdf/SKILL.md"}
    assert found(skills, "shared") == ["pdf"]


@requirement("skills.scan")
def test_an_absolute_root_is_taken_as_it_is(project: Path, tmp_path: Path) -> None:
    skill(tmp_path / "elsewhere", "pdf")
    skills = Skills(project, roots=[str(tmp_path / "elsewhere")])
    assert names(skills) == {"pdf": f"{tmp_path}/elsewhere/pdf/SKILL.md"}
    assert skills.read("pdf").skill == "pdf"


@requirement("skills.scan")
def test_a_root_may_be_a_skill_itself_and_skills_may_be_nested(project: Path) -> None:
    pdf = skill(project, "pdf", body="zebra\n")
    skill(pdf, "below/forms")
    write(pdf / "below/forms/notes.md", "# Lion\n\nlion\n")
    write(pdf / "assets/SKILL.md", "---\nname: template\ndescription: t\n---\n# Template\n\ngiraffe\n")
    skills = Skills(pdf, roots=["."], usual=False)
    assert names(skills) == {"pdf": "SKILL.md", "forms": "below/forms/SKILL.md"}
    assert found(skills, "lion") == ["forms"]
    assert found(skills, "giraffe") == ["pdf"]
    reading = skills.read("pdf")
    assert reading.text == "zebra"
    assert [reference.path for reference in reading.references] == ["assets/SKILL.md"]
    assert reading.files == ()
    assert skills.problems() == ()


def test_a_page_that_comes_to_belong_to_another_skill_is_found_as_that_ones(project: Path) -> None:
    pdf = skill(project / ".agents/skills", "pdf")
    write(pdf / "forms/notes.md", "# Lion\n\nlion\n")
    skills = Skills(project)
    assert found(skills, "lion") == ["pdf"]
    skill(pdf, "forms")
    assert found(skills, "lion") == ["forms"]
    assert [hit.skill for hit in skills.search_references("lion", "forms").hits] == ["forms"]
    (pdf / "forms/SKILL.md").unlink()
    assert found(skills, "lion") == ["pdf"]


@requirement("skills.scan", "skills.confined")
def test_links_out_of_a_root_are_refused_and_links_between_roots_are_not_news(project: Path, tmp_path: Path) -> None:
    outside = skill(tmp_path / "outside", "secret", "zebra")
    shared = skill(project / ".agents/skills", "pdf", "lion")
    claude = project / ".claude/skills"
    claude.mkdir(parents=True)
    os.symlink(shared, claude / "pdf")
    os.symlink(outside, claude / "secret")
    (claude / "file").mkdir()
    os.symlink(outside / "SKILL.md", claude / "file/SKILL.md")
    (project / ".evil").mkdir()
    os.symlink(tmp_path / "outside", project / ".evil/skills")
    skills = Skills(project)
    assert list(names(skills)) == ["pdf"]
    assert found(skills, "zebra") == []
    told = reasons(skills)
    assert set(told) == {".claude/skills/secret", ".claude/skills/file/SKILL.md", ".evil/skills/"}
    assert "link out of the root" in told[".claude/skills/file/SKILL.md"]
    assert "link out of the project" in told[".evil/skills/"]


def test_a_root_that_is_a_link_inside_the_project_is_looked_into_once(project: Path) -> None:
    skill(project / ".agents/skills", "pdf")
    (project / ".claude").mkdir()
    os.symlink("../.agents/skills", project / ".claude/skills")
    skills = Skills(project)
    assert names(skills) == {"pdf": ".agents/skills/pdf/SKILL.md"}
    assert skills.problems() == ()


def test_a_missing_place_is_empty_and_says_what_to_do(project: Path) -> None:
    result = Skills(project / "nowhere").search("anything")
    assert (result.hits, result.skills) == ((), 0)
    assert "put one in .agents/skills" in str(result.reason)


def test_a_file_in_other_letters_is_reported(project: Path) -> None:
    write(project / ".agents/skills/pdf/skill.md", "---\nname: pdf\ndescription: d\n---\n")
    skills = Skills(project)
    assert skills.all() == ()
    assert "must be named exactly SKILL.md" in reasons(skills)[".agents/skills/pdf/skill.md"]


@requirement("skills.validate")
def test_what_cannot_be_loaded_is_reported_and_hides_no_other(project: Path) -> None:
    root = project / ".agents/skills"
    skill(root, "good", "zebra")
    bomb = "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(9))
    write(root / "bomb/SKILL.md", f"---\nname: bomb\ndescription: zebra\n{bomb}---\n")
    write(root / "binary/SKILL.md", b"\x7fELF\0\0")
    write(root / "empty/SKILL.md", "")
    write(root / "open/SKILL.md", "---\nname: open\ndescription: zebra\n")
    write(root / "latin/SKILL.md", "---\nname: latin\ndescription: zebra für alle\n---\n".encode("latin-1"))
    write(root / "wide/SKILL.md", "---\nname: wide\ndescription: zebra\n---\n".encode("utf-16"))
    write(root / "other/SKILL.md", "\ufeff---\r\nname: name\r\ndescription: zebra\r\n---\r\n")
    os.mkfifo(root / "binary/pipe.md")
    skills = Skills(project)
    assert sorted(found(skills, "zebra")) == ["good", "latin", "name", "wide"]
    told = {path.removeprefix(".agents/skills/"): reason for path, reason in reasons(skills).items()}
    assert set(told) == {
        *("bomb/SKILL.md", "binary/SKILL.md", "binary/pipe.md", "empty/SKILL.md", "open/SKILL.md"),
        *("latin/SKILL.md", "other/SKILL.md"),
    }
    assert "anchor" in told["bomb/SKILL.md"]
    checked = {one.path.split("/")[2]: one.verdict for one in skills.validate()}
    assert {name for name, verdict in checked.items() if not verdict.errors} == {"good", "latin", "wide"}


# What they say


@pytest.fixture
def library(project: Path) -> Skills:
    root = project / ".agents/skills"
    pdf = skill(
        root,
        "pdf-processing",
        "Extract tables from documents.",
        "# PDF\n\nintroduction\n\n## Checkboxes\n\n"
        "Tick the hippopotamus.\n\nSee [the forms](references/forms.md#filling).\n",
        "metadata:\n  author: aardvark\n",
    )
    write(
        pdf / "references/forms.md",
        "# Forms\n\nabout\n\n## Filling\n\nThe crocodile field.\n\n### Signing\n\nsigned\n\n## End\n",
    )
    skill(root, "deploy", "Ship a release.", "# Steps\n\n1. Ship it.\n")
    skill(root, "arbeit", "レビューを書く。 Пишет отчёты о безопасности.", "# 手順\n\n表を抽出する\n")
    return Skills(project)


@requirement("skills.search")
@pytest.mark.parametrize(
    ("query", "name", "part"),
    [
        ("pdf processing", "pdf-processing", "skill"),
        ("extract tables", "pdf-processing", "skill"),
        ("aardvark", "pdf-processing", "skill"),
        ("hippopotamus", "pdf-processing", "section"),
        ("crocodile", "pdf-processing", "reference"),
        ("レビュー", "arbeit", "skill"),
        ("抽出", "arbeit", "section"),
        ("отчёты", "arbeit", "skill"),
        ("Deploy!", "deploy", "skill"),
    ],
)
def test_a_skill_is_found_by_every_part_of_it_and_says_by_which(
    library: Skills, query: str, name: str, part: str
) -> None:
    hit = library.search(query).hits[0]
    assert hit.name == name
    assert hit.matches[0].kind == part
    assert hit.score == pytest.approx(sum(match.score for match in hit.matches))
    assert all(match.layers[0].name == "keyword" and match.layers[0].terms for match in hit.matches)


@requirement("skills.search")
def test_a_match_names_the_file_the_section_and_the_lines(library: Skills) -> None:
    match = library.search("crocodile").hits[0].matches[0]
    assert (match.path, match.heading_path, match.lines) == ("references/forms.md", ("Forms", "Filling"), (5, 7))
    assert "crocodile" in match.snippet


def test_a_skill_that_fits_by_its_head_and_by_its_text_comes_before_those_that_fit_by_one(project: Path) -> None:
    root = project / ".agents/skills"
    skill(root, "head", "about zebras", "# A\n\nnothing\n")
    skill(root, "text", "about horses", "# A\n\nzebras\n")
    skill(root, "both", "about zebras", "# A\n\nzebras\n")
    assert found(Skills(project), "zebras")[0] == "both"


def test_one_skill_of_a_thousand_sections_does_not_hide_the_others(project: Path) -> None:
    root = project / ".agents/skills"
    skill(root, "huge", "much", "\n".join(f"# Zebra {number}\n\nzebra zebra\n" for number in range(1000)))
    for number in range(8):
        skill(root, f"small{number}", "for a zebra")
    assert len(found(Skills(project), "zebra")) == 9


def test_a_miss_has_a_reason(library: Skills) -> None:
    assert "none of 3 skills has a word" in str(library.search("xyzzy").reason)
    assert library.search("...").reason == "the query has no words to look for"
    with pytest.raises(InputError, match="at least one"):
        library.search("pdf", 0)


@requirement("skills.hybrid")
def test_with_an_embedder_a_skill_is_found_by_what_its_head_means(project: Path) -> None:
    root = project / ".agents/skills"
    skill(root, "weather", "When it may rain.", "# Snow\n\nsnow\n")
    skill(root, "deploy", "Ship a release.")
    toy = Directions()
    skills = Skills(project, embedder=toy)
    hits = skills.search("umbrella").hits
    assert hits[0].name == "weather"
    assert hits[0].matches[0].layers[0].name == "semantic"
    assert sorted(toy.texts) == ["deploy\nShip a release.", "umbrella", "weather\nWhen it may rain."]
    assert skills.search("umbrella").notes == ()
    assert Skills(project).search("umbrella").hits == ()


@requirement("skills.hybrid")
def test_where_meaning_is_wanted_and_cannot_be_compared_words_are_and_it_is_said(project: Path) -> None:
    class Broken(Directions):
        def embed(self, texts: Sequence[str], kind: str = "document") -> "list[array[float]]":
            raise EmbedderError("the model is gone: get another")

    skill(project / ".agents/skills", "weather", "When it may rain.")
    for result in (
        Skills(project, embedder=Broken()).search("rain"),
        Skills(project, unavailable="the model is gone: get another").search("rain"),
    ):
        assert [hit.name for hit in result.hits] == ["weather"]
        assert result.notes == ("only words were compared: the model is gone: get another",)


@requirement("skills.search-references")
def test_references_are_searched_by_what_they_say_without_an_embedder_too(library: Skills) -> None:
    hits = library.search_references("crocodile field").hits
    assert [(hit.skill, hit.match.path, hit.match.kind) for hit in hits] == [
        ("pdf-processing", "references/forms.md", "reference")
    ]
    assert hits[0].match.score > 0
    assert library.search_references("hippopotamus").hits == ()
    assert library.search_references("hippopotamus").reason
    assert len(library.search_references("crocodile", "pdf-processing").hits) == 1
    assert library.search_references("crocodile", "deploy").hits == ()
    with pytest.raises(NotFound, match="did you mean 'deploy'"):
        library.search_references("crocodile", "deplo")


# Reading them


@requirement("skills.reference-content", "search.progressive")
def test_a_skill_is_read_first_and_its_references_when_they_are_asked_for(library: Skills, later: None) -> None:
    library.refresh()
    with opened() as paths:
        reading = library.read("pdf-processing")
    assert not [path for path in paths if path.endswith("forms.md")]
    assert reading.text.startswith("# PDF\n\nintroduction")
    assert "name: pdf-processing" not in reading.text
    assert reading.lines == (7, 15)
    assert reading.headings == ("PDF", "Checkboxes")
    (reference,) = reading.references
    assert (reference.path, reference.text, reference.line) == ("references/forms.md", "the forms", 15)
    whole = library.reference_content("pdf-processing", "references/forms.md")
    assert whole.text.startswith("# Forms")
    assert whole.headings == ("Forms", "Filling", "Signing", "End")


@requirement("skills.reference-content")
@pytest.mark.parametrize(
    ("path", "section"),
    [
        ("references/forms.md", "Filling"),
        ("references/forms.md", "## filling"),
        ("./references/forms.md", "FILLING"),
        ("references/forms.md#filling", None),
    ],
)
def test_a_section_of_a_reference_comes_with_what_is_below_it(library: Skills, path: str, section: str | None) -> None:
    part = library.reference_content("pdf-processing", path, section)
    assert part.text == "## Filling\n\nThe crocodile field.\n\n### Signing\n\nsigned"
    assert (part.path, part.lines) == ("references/forms.md", (5, 11))
    with pytest.raises(NotFound, match="'Forms', 'Filling', 'Signing', 'End'"):
        library.reference_content("pdf-processing", path.partition("#")[0], "Nothing")


@requirement("skills.confined")
@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../deploy/SKILL.md", "../../../../../../etc/passwd", "references/../../deploy/SKILL.md"),
        *(
            "out.md",
            "outer/secret.md",
            "loop",
            "pipe",
            "references",
            "",
            "\0",
            "x" * 5000,
            "missing.md",
            "~/x",
            "\udcff",
        ),
    ],
)
def test_nothing_outside_a_skill_is_read_for_it(library: Skills, tmp_path: Path, path: str) -> None:
    secret = write(tmp_path / "outside/secret.md", "zebra")
    pdf = Path(library.project) / ".agents/skills/pdf-processing"
    os.symlink(secret, pdf / "out.md")
    os.symlink(secret.parent, pdf / "outer")
    os.symlink("loop", pdf / "loop")
    os.mkfifo(pdf / "pipe")
    with pytest.raises(InputError, match="cannot be read"):
        library.reference_content("pdf-processing", path)
    listed = library.read("pdf-processing")
    assert "secret" not in str((listed.files, [one for one in listed.references if not one.problem]))


@requirement("skills.confined")
def test_links_that_lead_out_or_nowhere_are_reported_and_a_skill_may_link_to_itself(project: Path) -> None:
    body = (
        "[a](/etc/passwd) [b](../../../../etc/passwd) [c](%2e%2e/%2e%2e/x.md) [d](missing.md) [e](SKILL.md) [f](#top)\n"
        "[g](file:///etc/passwd) [h](https://example.org/x.md) [i](there.md) [j](references/) [k](there.md#x)\n"
    )
    pdf = skill(project / ".agents/skills", "pdf", body=body)
    write(pdf / "there.md", "[back](SKILL.md) [self](there.md)\n")
    (pdf / "references").mkdir()
    write(project / ".agents/x.md", "zebra")
    skills = Skills(project)
    told = {reference.path: reference.problem for reference in skills.references("pdf")}
    assert told.pop("there.md") is None
    assert told == {
        "/etc/passwd": "it leads out of there",
        "../../../../etc/passwd": "it leads out of there",
        "../../x.md": "it leads out of there",
        "missing.md": "no such file or directory",
        "references": "not a regular file",
    }
    (checked,) = skills.validate()
    assert checked.verdict.errors == ()
    broken = [warning for warning in checked.verdict.warnings if "links to" in warning]
    assert [warning.split("'")[1] for warning in broken] == [
        *("/etc/passwd", "../../../../etc/passwd", "../../x.md", "missing.md"),
    ]
    assert found(skills, "zebra") == []


@requirement("skills.scripts")
def test_scripts_are_listed_with_what_they_say_and_never_run(project: Path, tmp_path: Path) -> None:
    pdf = skill(project / ".agents/skills", "pdf")
    ran = tmp_path / "ran"
    write(pdf / "scripts/fill.py", f'#!/usr/bin/env python3\n"""Fill in a form."""\nopen({str(ran)!r}, "w")\n').chmod(
        0o755
    )
    write(pdf / "scripts/fill.sh", f"#!/bin/sh\n# Fill it in.\ntouch {ran}\n").chmod(0o755)
    write(pdf / "scripts/fill.test.ts", "// a test\n")
    write(pdf / "scripts/test_fill.py", "# a test\n")
    write(pdf / "scripts/lib/deep.py", "# not a program\n")
    write(pdf / "scripts/data.json", "{}")
    write(pdf / "scripts/.hidden.py", "# hidden\n")
    skills = Skills(project)
    assert [tuple(script) for script in skills.scripts("pdf")] == [
        ("fill", "pdf:fill", "Fill in a form.", "scripts/fill.py"),
        ("fill.sh", "pdf:fill.sh", "Fill it in.", "scripts/fill.sh"),
    ]
    reading = skills.read("pdf")
    assert [script.name for script in reading.scripts] == ["fill", "fill.sh"]
    assert reading.files == tuple(
        f"scripts/{name}" for name in ("data.json", "fill.test.ts", "lib/deep.py", "test_fill.py")
    )
    assert not ran.exists()
    assert skills.reference_content("pdf", "scripts/fill.sh").text.startswith("#!/bin/sh")


def test_more_files_than_are_listed_are_reported(project: Path) -> None:
    pdf = skill(project / ".agents/skills", "pdf", "Work with documents.", "# PDF\n")
    for number in range(MAX_LISTED - 1):
        write(pdf / f"assets/{number}.txt", "")
    assert Skills(project).read("pdf").notes == ()
    write(pdf / "assets/more.txt", "")
    skills = Skills(project)
    assert skills.read("pdf").notes == (f"more than {MAX_LISTED} files: the rest is not listed",)
    read = next(tool for tool in skills.tools() if tool.name == "read_skill")
    assert f"[more than {MAX_LISTED} files: the rest is not listed]" in read(name="pdf").to_text()


def test_more_links_than_are_followed_are_reported(project: Path) -> None:
    links = "".join(f"[x{number}](x{number}.md)\n" for number in range(MAX_LINKS + 5))
    skill(project / ".agents/skills", "pdf", "Work with documents.", links)
    skills = Skills(project)
    assert len(skills.get("pdf").links) == MAX_LINKS
    assert "only the first 1,000 are followed" in skills.problems()[0].reason


@requirement("skills.scripts", "catalog.sources")
def test_scripts_join_a_catalog_of_tools_for_whoever_runs_them(project: Path) -> None:
    pdf = skill(project / ".agents/skills", "pdf", "Work with documents.", "# PDF\n")
    write(pdf / "scripts/fill.py", '"""Fill in a form."""\n')
    catalog = Catalog()
    catalog.add(Skills(project).script_tools())
    (hit,) = catalog.search("fill in a form").hits
    assert (hit.id, hit.tool.source, hit.tool.label) == ("pdf/pdf__fill", "skill", "pdf:fill")
    assert catalog.search("documents").hits[0].id == hit.id


def test_an_unknown_skill_is_answered_with_what_is_near(library: Skills) -> None:
    with pytest.raises(NotFound, match="did you mean 'pdf-processing'"):
        library.read("pdf_processing")
    with pytest.raises(NotFound, match="use a name from a search"):
        library.scripts("\x1b[2J" * 1000)


# Fresh and kept


def test_an_edit_is_seen_by_the_next_answer_and_what_is_deleted_is_gone(project: Path) -> None:
    root = project / ".agents/skills"
    pdf = skill(root, "pdf", "zebra")
    skills = Skills(project)
    assert found(skills, "zebra") == ["pdf"]
    skill(root, "pdf", "lion")
    assert (found(skills, "zebra"), found(skills, "lion")) == ([], ["pdf"])
    write(pdf / "more.md", "giraffe")
    assert found(skills, "giraffe") == ["pdf"]
    pdf.rename(root / "renamed")
    assert found(skills, "lion") == ["pdf"]
    assert "'renamed'" in reasons(skills)[".agents/skills/renamed/SKILL.md"]
    (root / "renamed/SKILL.md").unlink()
    assert found(skills, "giraffe") == []
    assert skills.all() == ()


@requirement("skills.warm-start")
def test_unchanged_skills_are_neither_read_nor_embedded_again(project: Path, tmp_path: Path, later: None) -> None:
    root = project / ".agents/skills"
    for number in range(20):
        home = skill(root, f"skill{number}", f"rain {number}", "filling words\n" * 200)
        write(home / "more.md", f"# More\n\n{chr(97 + number) * 4}\n")
    kept, toy = str(tmp_path / "kept/skills"), Directions()
    first = Skills(project, cache_file=kept, embedder=toy)
    before = first.search("hhhh umbrella")
    assert len(toy.texts) == 20 + 1
    (root / "skill3/SKILL.md").unlink()
    skill(root, "skill4", "rain changed")
    again = Directions()
    with opened() as paths:
        second = Skills(project, cache_file=kept, embedder=again)
        after = second.search("hhhh umbrella")
    assert [path for path in paths if path.endswith(".md")] == ["SKILL.md"]
    assert [text for text in again.texts if "umbrella" not in text] == ["skill4\nrain changed"]
    assert [hits[0].name for hits in (before.hits, after.hits)] == ["skill7", "skill7"]
    assert after.skills == 19
    assert not [hit for hit in second.search("dddd").hits if hit.matches[0].kind != "skill"]
    assert [reference.path for reference in second.references("skill7")] == ["more.md"]


@requirement("skills.warm-start")
def test_a_skill_whose_name_is_not_its_directorys_is_kept_like_others(
    project: Path, tmp_path: Path, later: None
) -> None:
    text = "---\nname: other\ndescription: zebra\n---\n" + "filling words\n" * 4000
    write(project / ".agents/skills/pdf/SKILL.md", text)
    kept = str(tmp_path / "kept/skills")
    before = Skills(project, cache_file=kept)
    assert found(before, "zebra") == ["other"]
    with opened() as paths:
        after = Skills(project, cache_file=kept)
        assert found(after, "zebra") == ["other"]
    assert not [path for path in paths if path.endswith(".md")]
    assert after.problems() == before.problems() != ()
    assert after.all() == before.all()


def test_a_kept_file_that_is_damaged_costs_no_answer(project: Path, tmp_path: Path) -> None:
    skill(project / ".agents/skills", "pdf", "zebra", "text\n" * 50_000)
    kept = write(tmp_path / "kept", b"\xff" * 5000)
    assert found(Skills(project, cache_file=str(kept)), "zebra") == ["pdf"]


def test_ten_thousand_skills_are_found_listed_and_bounded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project / ".agents/skills"
    for number in range(10_000):
        skill(root, f"s{number}", f"about w{number}")
    skills = Skills(project)
    assert len(skills.all()) == 10_000
    assert found(skills, "w7777") == ["s7777"]
    assert skills.problems() == ()
    catalog = skills.catalog()
    assert len(catalog.text) <= 8_000
    assert catalog.skills + catalog.left_out == 10_000


def test_roots_are_bounded(project: Path) -> None:
    for number in range(skill_files.MAX_ROOTS + 5):
        skill(project / f".client{number:03}/skills", f"s{number}")
    skills = Skills(project)
    assert len(skills.all()) == skill_files.MAX_ROOTS
    assert len(skills.problems()) == 5


def test_threads_share_skills(library: Skills) -> None:
    root = Path(library.project) / ".agents/skills"
    wrong: list[object] = []

    def ask() -> None:
        for _ in range(20):
            try:
                if found(library, "crocodile") != ["pdf-processing"] or not library.read("deploy").text:
                    wrong.append("missing")
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        skill(root, f"new{number}")
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(os.name == "nt", reason="such names are not allowed there")
def test_names_that_are_not_unicode_are_found_and_read(project: Path) -> None:
    place = os.fsencode(project / ".agents/skills") + b"/\xff\xfe"
    os.makedirs(place)
    with open(place + b"/SKILL.md", "wb") as file:
        file.write(b"---\ndescription: zebra\n---\nbody\n")
    with open(place + b"/r\xff.md", "wb") as file:
        file.write(b"lion\n")
    skills = Skills(project)
    (name,) = found(skills, "lion")
    assert skills.read(name).text == "body"
    assert skills.catalog().text.encode()


@requirement("skills.reference-content")
def test_a_reference_may_have_a_hash_in_its_name(project: Path) -> None:
    made = skill(
        project / ".agents/skills", "style", body="See [C#](references/c%23.md) and [Go](references/go.md#tabs)."
    )
    write(made / "references/c#.md", "# Sharp\n\nzebra\n")
    write(made / "references/go.md", "# Go\n\n## Tabs\n\nlion\n")
    skills = Skills(project)
    assert "zebra" in skills.reference_content("style", "references/c#.md").text
    assert skills.reference_content("style", "references/go.md#tabs").text == "## Tabs\n\nlion"


CROWD = "".join(f"# Zebra\n\nzebra zebra {number}\n\n" for number in range(500))


@requirement("skills.search", "skills.search-references")
@pytest.mark.parametrize("crowd", ["damaged", "of a name that is taken", "used"])
def test_no_number_of_sections_hides_another_skill(project: Path, crowd: str) -> None:
    root = project / ".agents/skills"
    skill(root, "good", "Paints.", "# Painting\n\nAll the other words and one zebra.\n")
    write(root / "good/more.md", "# More\n\nAll the other words and one zebra.\n")
    many = skill(root, "many", "Animals.", CROWD)
    write(many / "pages.md", CROWD)
    if crowd == "damaged":
        write(many / "SKILL.md", CROWD)
    elif crowd == "of a name that is taken":
        write(many / "SKILL.md", f"---\nname: good\ndescription: d\n---\n{CROWD}")
    skills = Skills(project)
    assert "good" in found(skills, "zebra")
    of_good = skills.search_references("zebra", None, 1).hits
    assert [hit.skill for hit in of_good] == (["many"] if crowd == "used" else ["good"])
