"""Which files does a sweep find, and does it ever leave its root or open what it must not?"""

import errno
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from onhand.corpora import files
from onhand.errors import InputError
from requirements import requirement

from .conftest import Project, found, on_open, opened, reasons

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX links, pipes and names")


def names(root: Path) -> list[str]:
    return [file.name for file in files.sweep(str(root))[0]]


def test_markdown_is_found_recursively_and_sorted_by_name(project: Project) -> None:
    for name in ("z.md", "a/b/c.md", "a/READ.MD", "n.markdown", "-rf.md", ".hidden.md", "100%.md", "a..b.md"):
        project.write(name, "# x\n")
    for name in ("notes.txt", "md", "x.md.bak", ".git/x.md", "node_modules/x.md", "a/venv/x.md", "__pycache__/x.md"):
        project.write(name, "# x\n")
    assert names(project.root) == sorted(
        ["-rf.md", ".hidden.md", "100%.md", "a..b.md", "a/READ.MD", "a/b/c.md", "n.markdown", "z.md"]
    )
    assert files.sweep(str(project.root))[1] == []


def test_a_directory_that_is_named_like_a_page_is_a_directory(project: Project) -> None:
    project.write("notes.md/inner.md", "# Inner\n")
    assert names(project.root) == ["notes.md/inner.md"]


@posix
@requirement("context.stays-in-root")
def test_a_link_to_a_page_inside_the_root_is_read(project: Project) -> None:
    project.write("deep/real.md", "# Real\n\nzebra\n")
    (project.root / "link.md").symlink_to("deep/real.md")
    assert names(project.root) == ["deep/real.md", "link.md"]
    assert found(project.context().search("zebra")) == [(".AGENTS/deep/real.md", "Real"), (".AGENTS/link.md", "Real")]


@posix
@requirement("context.stays-in-root")
def test_a_link_to_what_is_not_markdown_is_not_read(project: Project) -> None:
    project.write("secrets.env", "TOKEN=zebra\n")
    (project.root / "notes.md").symlink_to("secrets.env")
    context = project.context()
    assert found(context.search("zebra")) == []
    assert reasons(context) == {".AGENTS/notes.md": "a link to something that is not Markdown"}


@posix
@requirement("context.stays-in-root")
def test_no_link_leads_out_of_the_root(project: Project, outside: Path) -> None:
    project.write("good.md", "# Good\n\nallowed zebra\n")
    sibling = project.write("../.AGENTS-evil/x.md", "# Evil\n\nforbidden zebra\n")
    (project.root / "absolute.md").symlink_to(outside)
    (project.root / "relative.md").symlink_to(os.path.relpath(outside, project.root))
    (project.root / "sibling.md").symlink_to(sibling)
    (project.root / "chain.md").symlink_to("absolute.md")
    (project.root / "proc.md").symlink_to("/proc/self/environ")
    (project.root / "directory").symlink_to(outside.parent)
    (project.root / "directory.md").symlink_to(outside.parent)
    context = project.context()
    with opened() as paths:
        result = context.search("zebra forbidden allowed", limit=10)
    assert found(result) == [(".AGENTS/good.md", "Good")]
    assert [path for path in paths if not path.startswith(str(project.root))] == []
    assert {os.path.relpath(path, project.root) for path in paths} == {".", "good.md"}
    told = reasons(context)
    for name in ("absolute", "relative", "sibling", "chain", "proc"):
        assert "a link out of the root" in told.pop(f".AGENTS/{name}.md")
    assert told.keys() == {".AGENTS/directory", ".AGENTS/directory.md"}
    assert all("a link to a directory" in reason for reason in told.values())


@posix
@requirement("context.stays-in-root")
def test_a_root_that_is_a_link_out_of_the_project_is_refused(tmp_path: Path, outside: Path) -> None:
    project = Project(tmp_path / "clone")
    project.root.rmdir()
    project.root.symlink_to(outside.parent)
    context = project.context()
    with opened() as paths:
        assert context.search("zebra").hits == ()
    assert [path for path in paths if "outside" in path] == []
    assert "a link out of the project" in reasons(context)[".AGENTS/"]


@posix
def test_a_root_that_is_a_link_inside_the_project_is_a_root(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.write("../docs/a.md", "# A\n\nzebra\n")
    project.root.rmdir()
    project.root.symlink_to("docs")
    assert found(project.context().search("zebra")) == [(".AGENTS/a.md", "A")]
    assert project.context().problems() == ()


@posix
@requirement("context.stays-in-root")
def test_a_loop_of_links_is_reported_and_hides_nothing_else(project: Project) -> None:
    (project.root / "loop.md").symlink_to("loop.md")
    (project.root / "a").symlink_to("b")
    (project.root / "b").symlink_to("a")
    (project.root / "up").symlink_to("..")
    (project.root / "dangling.md").symlink_to("nowhere.md")
    for letter in "abcdefgh":  # whatever order the directory has, some come after the loop
        project.write(f"{letter}.md", f"# Page {letter}\n\nzebra\n")
    context = project.context()
    assert len(context.search("zebra", limit=100).hits) == 8
    assert reasons(context).keys() == {".AGENTS/loop.md", ".AGENTS/dangling.md", ".AGENTS/up"}
    assert "symbolic links" in reasons(context)[".AGENTS/loop.md"]


@posix
@requirement("context.special-files")
def test_pipes_sockets_and_devices_are_reported_and_never_opened(project: Project) -> None:
    project.write("good.md", "# Good\n\nzebra\n")
    os.mkfifo(project.root / "pipe.md")
    (project.root / "piped.md").symlink_to("pipe.md")
    (project.root / "null.md").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.getcwd()
        os.chdir(project.root)  # the path of a socket may have no more than about 100 bytes
        listener.bind("socket.md")
        os.chdir(before)
        context = project.context()
        with opened() as paths:
            assert found(context.search("zebra")) == [(".AGENTS/good.md", "Good")]
    assert {os.path.relpath(path, project.root) for path in paths} == {".", "good.md"}
    assert reasons(context) == {
        ".AGENTS/pipe.md": "not a regular file",
        ".AGENTS/piped.md": "not a regular file",
        ".AGENTS/socket.md": "not a regular file",
        ".AGENTS/null.md": "a link out of the root: put the file itself here, or add its directory as an extra root",
    }


@posix
@requirement("context.special-files")
@pytest.mark.parametrize("make", ["mkfifo", "mkdir"])
def test_what_is_put_in_the_place_of_a_page_does_not_block(project: Project, make: str) -> None:
    page = project.write("page.md", "# Page\n\nzebra\n")

    def swap(path: str) -> None:
        if path == str(page):
            page.unlink()
            getattr(os, make)(page)

    with on_open(swap):
        result = project.context().search("zebra")
    assert result.hits == ()
    assert result.problems == ((".AGENTS/page.md", "no longer a regular file"),)


@posix
@requirement("context.stays-in-root")
def test_a_link_put_in_the_place_of_a_page_is_not_followed(project: Project, outside: Path) -> None:
    page = project.write("page.md", "# Page\n\nzebra\n")

    def swap(path: str) -> None:
        if path == str(page):
            page.unlink()
            page.symlink_to(outside)

    with on_open(swap):
        result = project.context().search("zebra forbidden")
    assert result.hits == ()
    assert [problem.path for problem in result.problems] == [".AGENTS/page.md"]


@posix
@requirement("context.stays-in-root")
@pytest.mark.parametrize("inner", ["notes/secret.md", "deep/down/notes/secret.md"])
def test_a_link_put_in_the_place_of_a_directory_is_not_followed(project: Project, outside: Path, inner: str) -> None:
    page = project.write(inner, "# Page\n\nzebra\n")
    directory = project.root / inner.partition("/")[0]
    elsewhere = outside.parent / "elsewhere"
    (elsewhere / inner).parent.mkdir(parents=True)
    (elsewhere / inner).write_bytes(outside.read_bytes())

    def swap(path: str) -> None:  # after the sweep, before the page is opened
        if path in (str(project.root), str(page)) and not directory.is_symlink():
            directory.rename(project.directory / "moved")
            directory.symlink_to(elsewhere / directory.name)

    with on_open(swap):
        result = project.context().search("zebra forbidden")
    assert directory.is_symlink()
    assert result.hits == ()
    assert [problem.path for problem in result.problems] == [f".AGENTS/{inner}"]


@requirement("context.unreadable-is-reported")
def test_all_files_together_are_limited_and_pinned_ones_come_first(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_TOTAL_BYTES", 100)
    project.write("a.md", "zebra " * 10)
    project.write("b.md", "zebra " * 10)
    project.write("c.md", "zebra " * 10)
    project.write("d.md", "zebra")
    project.write("huge.md", "zebra " * 100)
    project.write("overview.md", "# Overview")
    context = project.context(max_file_bytes=90)
    assert found(context.search("zebra", 9)) == [(".AGENTS/a.md", "(intro)"), (".AGENTS/d.md", "(intro)")]
    assert [file.path for file in context.pinned().files] == [".AGENTS/overview.md"]
    assert reasons(context) == {
        ".AGENTS/b.md": "left out, with 1 others: more than 20,000 files or 100 bytes together; choose smaller roots",
        ".AGENTS/huge.md": "600 bytes, more than 90: split it or raise max_file_bytes",
    }


@requirement("context.unreadable-is-reported")
@pytest.mark.parametrize("max_file_bytes", [10**10, 10**18, 10**30])
def test_a_huge_limit_takes_no_memory(project: Project, max_file_bytes: int) -> None:
    project.write("a.md", "zebra")
    assert found(project.context(max_file_bytes=max_file_bytes).search("zebra")) == [(".AGENTS/a.md", "(intro)")]


def test_many_roots_are_each_looked_through_once(project: Project) -> None:
    project.write("../docs/a.md", "zebra")
    context = project.context(extra_roots=["docs", "./docs/", "docs/../docs", ".AGENTS"] * 1000)
    assert context.roots == (".AGENTS", "docs")
    with pytest.raises(InputError, match="name at most 100"):
        project.context(extra_roots=[f"docs{number}" for number in range(200)])


@requirement("context.unreadable-is-reported")
def test_a_page_that_vanishes_before_it_is_read_is_reported_then_forgotten(project: Project) -> None:
    project.write("stays.md", "# Stays\n\nzebra\n")
    page = project.write("page.md", "# Page\n\nzebra\n")
    context = project.context()
    with on_open(lambda path: page.unlink() if path == str(page) else None):
        result = context.search("zebra")
    assert found(result) == [(".AGENTS/stays.md", "Stays")]
    assert [problem.path for problem in result.problems] == [".AGENTS/page.md"]
    assert context.search("zebra").problems == ()


@requirement("context.unreadable-is-reported")
@pytest.mark.usefixtures("later")
def test_a_read_that_fails_for_a_passing_reason_is_tried_again(project: Project) -> None:
    page = project.write("page.md", "# Page\n\nzebra\n")
    context = project.context()

    def refuse(path: str) -> None:
        if path == str(page):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with on_open(refuse):
        result = context.search("zebra")
    assert result.problems == ((".AGENTS/page.md", os.strerror(errno.EMFILE).lower()),)
    assert found(context.search("zebra")) == [(".AGENTS/page.md", "Page")]
    assert context.problems() == ()


@requirement("context.unreadable-is-reported")
@pytest.mark.parametrize(
    ("content", "byte"),
    [
        ("# zebra ä\n".encode("latin-1"), 8),
        ("# zebra ゼブラ\n".encode("shift-jis"), 8),
        (b"# zebra \xe2\x82", 8),
        (b"# zebra \xed\xa0\x80", 8),
    ],
)
def test_a_page_that_is_not_utf_8_is_read_as_far_as_possible_and_reported(
    project: Project, content: bytes, byte: int
) -> None:
    project.write("page.md", content)
    context = project.context()
    [hit] = context.search("zebra").hits
    assert "\ufffd" in hit.section.text
    assert reasons(context) == {".AGENTS/page.md": f"not UTF-8 (byte {byte}): save it as UTF-8 to be found whole"}


@requirement("context.unreadable-is-reported")
@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"\xef\xbb\xbf# zebra \xe9\n", "not UTF-8 (byte 11)"),
        (b"\xff\xfe" + "# zebra".encode("utf-16-le") + b"\n", "not UTF-16-LE (byte 16)"),
    ],
)
def test_a_page_that_is_not_what_its_byte_order_mark_says_is_reported(
    project: Project, content: bytes, wrong: str
) -> None:
    project.write("page.md", content)
    context = project.context()
    assert [path for path, _ in found(context.search("zebra"))] == [".AGENTS/page.md"]
    assert reasons(context) == {".AGENTS/page.md": f"{wrong}: save it as UTF-8 to be found whole"}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_says_how_a_page_is_written(project: Project, encoding: str) -> None:
    project.write("page.md", "# Zebra ä\n".encode(encoding))
    context = project.context()
    assert found(context.search("zebra")) == [(".AGENTS/page.md", "Zebra ä")]
    assert context.problems() == ()


@requirement("context.unreadable-is-reported")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x7fELF\x02\x01\x01\0\0\0zebra", "a binary file"),
        (b"\0" * 4096, "a binary file"),
        (b"\xef\xbb\xbfzebra\0", "a binary file"),
        ("# Zebra\n".encode("utf-16-le"), "a binary file"),
        (b"zebra" * 300_000, "1,500,000 bytes, more than 1,048,576: split it or raise max_file_bytes"),
    ],
)
def test_a_page_that_cannot_be_used_is_reported_with_its_reason(project: Project, content: bytes, reason: str) -> None:
    project.write("bad.md", content)
    project.write("good.md", "# Good\n\nzebra\n")
    context = project.context()
    assert found(context.search("zebra")) == [(".AGENTS/good.md", "Good")]
    assert reason in reasons(context)[".AGENTS/bad.md"]


@requirement("context.unreadable-is-reported")
def test_a_huge_file_is_reported_without_being_opened(project: Project) -> None:
    huge = project.write("huge.md", "# Huge\n\nzebra\n")
    os.truncate(huge, 200 * 1024 * 1024)
    context = project.context()
    with opened() as paths:
        assert context.search("zebra").hits == ()
    assert str(huge) not in paths
    assert "209,715,200 bytes" in reasons(context)[".AGENTS/huge.md"]


@requirement("context.unreadable-is-reported")
def test_a_file_that_grows_while_it_is_read_is_not_read_to_its_end(project: Project) -> None:
    page = project.write("page.md", "# Page\n\nzebra\n")

    def grow(path: str) -> None:
        if path == str(page):
            os.truncate(page, 200 * 1024 * 1024)

    context = project.context(max_file_bytes=1000)
    with on_open(grow):
        result = context.search("zebra")
    assert result.hits == ()
    assert "grew past 1,000 bytes" in result.problems[0].reason


@requirement("context.fresh-edit")
@pytest.mark.parametrize(("writes", "whole"), [(1, True), (1000, False)])
def test_a_page_that_is_written_to_while_it_is_read_is_one_whole_version_or_none(
    project: Project, monkeypatch: pytest.MonkeyPatch, writes: int, whole: bool
) -> None:
    page = project.write("page.md", "# Page\n\nzebra lion\n")
    real_read = os.read
    left = iter(range(writes))

    def read_then_rewrite(descriptor: int, size: int) -> bytes:
        content = real_read(descriptor, size)
        number = next(left, None)
        if number is not None:
            page.write_text("# Page\n\nzebra tiger\n" + "more\n" * (number % 7 + 1))
        return content

    context = project.context()
    with monkeypatch.context() as patched:
        patched.setattr(os, "read", read_then_rewrite)
        result = context.search("zebra")
    if whole:
        assert "tiger" in result.hits[0].section.text
    else:
        assert (result.hits, {p.path: p.reason for p in result.problems}) == (
            (),
            {".AGENTS/page.md": "it is being written to: try again"},
        )
    assert "tiger" in context.search("zebra").hits[0].section.text, "and the next look reads it again"


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_byte_order_marks_and_any_line_ends_are_ordinary(project: Project, bom: bytes, end: bytes) -> None:
    project.write("page.md", bom + b"# One" + end + b"zebra" + end + b"# Two" + end + b"lion")
    assert found(project.context().search("zebra")) == [(".AGENTS/page.md", "One")]


def test_empty_and_blank_pages_have_nothing_to_find_and_are_not_a_problem(project: Project) -> None:
    project.write("empty.md", "")
    project.write("blank.md", "\n \n\t\n")
    result = project.context().search("zebra")
    assert (result.hits, result.sections, result.files, result.problems) == ((), 0, 0, ())


@posix
@requirement("context.unreadable-is-reported")
def test_a_tree_of_ten_thousand_levels_is_cut_off_and_reported(deep: Path) -> None:
    swept, problems = files.sweep(str(deep))
    assert [file.name for file in swept] == ["top.md"]
    assert [problem.reason for problem in problems] == [f"deeper than {files.MAX_DEPTH} directories"]


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "deep"
    root.mkdir()
    (root / "top.md").touch()
    at = os.open(root, os.O_RDONLY)
    for _ in range(10_000):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("bottom.md", os.O_WRONLY | os.O_CREAT, dir_fd=at))
    os.close(at)
    yield root
    subprocess.run(["rm", "-rf", str(root)], check=True)  # shutil.rmtree would recurse


@requirement("context.unreadable-is-reported")
def test_a_directory_with_too_many_pages_is_cut_off_and_reported(tmp_path: Path) -> None:
    for number in range(files.MAX_FILES + 1):
        os.close(os.open(tmp_path / f"{number}.md", os.O_WRONLY | os.O_CREAT))
    swept, problems = files.sweep(str(tmp_path))
    assert len(swept) == files.MAX_FILES
    assert [problem.reason for problem in problems] == [
        "more than 20,000 files: the rest is left out; choose a smaller root"
    ]


@posix
@requirement("context.odd-names")
def test_names_of_any_bytes_are_found_and_read(project: Project) -> None:
    odd = ["a\nb.md", 'quo"te.md', "<context>.md", "\x1b[31m.md", " .md", "日本語.md", "\u202e.md", "back\\slash.md"]
    twins = ["caf\u00e9.md", "cafe\u0301.md"]
    for name in [*odd, *twins, os.fsdecode(b"caf\xe9.md")]:
        project.write(name, f"# Page\n\nzebra {len(name)}\n")
    context = project.context()
    result = context.search("zebra", limit=100)
    assert {hit.path for hit in result.hits} == {
        f".AGENTS/{name}" for name in [*odd, *twins, os.fsdecode(b"caf\xe9.md")]
    }
    assert result.problems == ()
    context.prompt().encode()


def test_a_sweep_ends_when_it_has_looked_at_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_ENTRIES", 5)
    for number in range(10):
        (tmp_path / f"{number}.md").touch()
    found, problems = files.sweep(str(tmp_path))
    assert len(found) == 5
    assert problems == [files.Problem("", "more than 5 entries: choose a smaller root")]


def test_a_sweep_by_names_passes_by_what_it_is_told_to(tmp_path: Path) -> None:
    for name in ("A.md", "sub/A.md", "sub/B.md", "skip/A.md", ".hidden/A.md", "a.md.bak"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found, problems = files.sweep(str(tmp_path), names=("A.md",), skips=lambda directory: directory == "skip")
    assert [file.name for file in found] == [".hidden/A.md", "A.md", "sub/A.md"]
    assert problems == []


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX links")
def test_a_file_below_a_root_is_found_through_links_that_stay_inside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    (root / "real/a.md").write_text("x")
    (root / "link").symlink_to("real")
    (root / "out").symlink_to(tmp_path)
    found = files.find_inside(str(root), "link/a.md")
    assert (found.name, found.inner) == ("link/a.md", "real/a.md")
    for name in ("out/x.md", "../x.md", "none.md", "real"):
        with pytest.raises(files.Unreadable):
            files.find_inside(str(root), name)
