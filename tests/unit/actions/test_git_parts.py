"""Does no part of a repository lead out of the workspace?"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from onhand import settled
from onhand.actions import git_parts
from onhand.actions.workspace import Workspace
from onhand.errors import InputError, NotFound
from requirements import requirement

from .conftest import SECRET, Git, past_the_tick, said

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@requirement("actions.git-read-only", "actions.confined")
def test_a_repository_outside_is_not_read(workspace: Workspace, root: Path, run: Git, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run("init", "-q", cwd=other)
    (other / "secret.txt").write_text(SECRET, encoding="utf-8")
    run("add", "secret.txt", cwd=other)
    run("commit", "-qm", SECRET, cwd=other)
    with pytest.raises(NotFound, match="in no git repository"):
        said(workspace, "log")
    for path in (str(other), "../other", "/etc", f"{root}/../other"):
        with pytest.raises(InputError, match="outside of the workspace"):
            said(workspace, "log", path=path)
    (root / "link").symlink_to(other)
    (root / ".git").write_text(f"gitdir: {other}/.git\n", encoding="utf-8")
    for path in ("link", "."):
        with pytest.raises(InputError, match="outside of the workspace"):
            said(workspace, "log", path=path)
    with pytest.raises(InputError, match=r"the user may add the repository to workspace\.read_only_roots"):
        said(workspace, "log")
    assert SECRET in said(Workspace(root, read_only_roots=[str(other / ".git")]), "log")
    (root / ".git").unlink()
    (root / ".git").symlink_to(other / ".git")
    with pytest.raises(InputError, match="outside of the workspace"):
        said(workspace, "log")


@requirement("actions.git-read-only", "actions.confined")
@pytest.mark.parametrize("part", ["objects", "refs", "index", "packed-refs", "commondir", "objects/info/alternates"])
def test_no_part_of_a_repository_leads_out(
    workspace: Workspace, repository: Path, tmp_path: Path, run: Git, part: str
) -> None:
    shutil.copytree(repository / ".git", tmp_path / "stolen")
    place = repository / ".git" / part
    if part in ("commondir", "objects/info/alternates"):
        place.write_text(f"{tmp_path}/stolen{'/objects' * ('objects' in part)}\n", encoding="utf-8")
    else:
        shutil.rmtree(place, ignore_errors=True)
        place.unlink(missing_ok=True)
        place.symlink_to(tmp_path / "stolen" / part)
    with pytest.raises(InputError, match="outside of the workspace"):
        said(workspace, "log")


@pytest.fixture
def other(tmp_path: Path, run: Git) -> Path:
    """A repository outside, with a secret."""
    other = tmp_path / "other"
    other.mkdir()
    run("init", "-q", cwd=other)
    (other / "secret.txt").write_text(SECRET, encoding="utf-8")
    run("add", "secret.txt", cwd=other)
    run("commit", "-qm", "Not yours", cwd=other)
    return other


def _borrow(objects: Path, others: Path) -> None:
    (objects / "info" / "alternates").write_text(f"{others}\n", encoding="utf-8")


def _borrow_in_quotes(objects: Path, others: Path) -> None:
    (objects / "info" / "alternates").write_text(f'"{others}"\n', encoding="utf-8")


def _borrow_twice(objects: Path, others: Path) -> None:
    (objects.parent / "between" / "info").mkdir(parents=True)
    _borrow(objects.parent / "between", others)
    _borrow(objects, objects.parent / "between")


def _borrow_through_a_link(objects: Path, others: Path) -> None:
    shutil.rmtree(objects / "info")
    (objects.parent / "elsewhere").mkdir()
    (objects / "info").symlink_to("../elsewhere")
    _borrow(objects, others)


def _link_directories(objects: Path, others: Path) -> None:
    for directory in others.glob("??"):
        shutil.rmtree(objects / directory.name, ignore_errors=True)
        (objects / directory.name).symlink_to(directory)


def _link_files(objects: Path, others: Path) -> None:
    for file in others.glob("??/*"):
        (objects / file.parent.name).mkdir(exist_ok=True)
        (objects / file.parent.name / file.name).symlink_to(file)


def _link_through_the_workspace(objects: Path, others: Path) -> None:
    (objects.parent / "step").symlink_to(others)
    for directory in others.glob("??"):
        shutil.rmtree(objects / directory.name, ignore_errors=True)
        (objects / directory.name).symlink_to(f"../step/{directory.name}")


@requirement("actions.git-read-only", "actions.confined")
@pytest.mark.parametrize(
    "take",
    [
        *(_borrow, _borrow_in_quotes, _borrow_twice, _borrow_through_a_link),
        *(_link_directories, _link_files, _link_through_the_workspace),
    ],
)
def test_no_objects_are_taken_from_a_repository_outside(
    workspace: Workspace, repository: Path, other: Path, take: Callable[[Path, Path], None]
) -> None:
    commit = (other / ".git" / "refs" / "heads").iterdir().__next__().read_text(encoding="ascii").strip()
    take(repository / ".git" / "objects", other / ".git" / "objects")
    shown = subprocess.run(["git", "show", commit], cwd=repository, capture_output=True, text=True, timeout=60).stdout
    assert SECRET in shown  # else there is nothing to keep in
    with pytest.raises(InputError, match=r"outside of the workspace|in quotes"):
        said(workspace, "show", commit)


def _pipe(objects: Path, _: Path) -> None:
    os.mkfifo(next(objects.glob("??")) / "pipe")


@requirement("actions.git-read-only", "actions.confined")
@pytest.mark.parametrize(
    "take", [_borrow, _borrow_through_a_link, _link_directories, _link_files, _link_through_the_workspace, _pipe]
)
def test_what_leads_out_since_the_last_look_is_seen(
    workspace: Workspace,
    repository: Path,
    other: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    take: Callable[[Path, Path], None],
) -> None:
    monkeypatch.setattr(settled, "SETTLED_NS", -1)
    assert said(workspace, "log", "--format=%s") == "Second commit\nFirst commit\n"
    past_the_tick(tmp_path)
    take(repository / ".git" / "objects", other / ".git" / "objects")
    with pytest.raises(InputError, match=r"outside of the workspace|is a pipe"):
        said(workspace, "log")


@requirement("actions.git-read-only", "actions.confined")
def test_a_link_that_has_not_changed_is_followed_again(
    workspace: Workspace, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "SETTLED_NS", -1)
    (repository / "step").mkdir()
    (repository / ".git" / "refs" / "link").symlink_to("../../step")
    said(workspace, "log")
    (repository / "step").rmdir()
    (repository / "step").symlink_to("../outside")
    with pytest.raises(InputError, match="outside of the workspace"):
        said(workspace, "log")


@requirement("actions.git-read-only")
def test_a_directory_of_objects_is_read_again_only_when_it_has_changed(
    workspace: Workspace, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "SETTLED_NS", 3600 * 10**9)
    git_parts._unchanged.cache_clear()
    said(workspace, "log")
    assert git_parts._unchanged.cache_info().currsize == 0  # a change may yet come that leaves no trace
    monkeypatch.setattr(settled, "SETTLED_NS", -1)
    first = said(workspace, "log")
    monkeypatch.setattr(git_parts, "_listed", lambda path: pytest.fail(f"{path} was read again"))
    assert said(workspace, "log") == first


@requirement("actions.git-read-only")
def test_objects_are_borrowed_within_the_workspace(workspace: Workspace, repository: Path, run: Git) -> None:
    run("clone", "-q", "--shared", ".", "again")
    run("branch", "info")  # a file where directories of objects have a directory
    assert said(workspace, "log", "--format=%s", path="again") == "Second commit\nFirst commit\n"
    run("clone", "-q", "--shared", "again", "once-more")
    assert said(workspace, "log", "--format=%s", path="once-more") == "Second commit\nFirst commit\n"


@requirement("actions.git-read-only", "actions.confined")
@pytest.mark.parametrize("part", ["index", "packed-refs", "refs/heads/pipe", "objects/pack/pack-x.idx", "shallow"])
def test_a_pipe_in_a_repository_is_not_waited_for(workspace: Workspace, repository: Path, part: str) -> None:
    (repository / ".git" / part).unlink(missing_ok=True)
    os.mkfifo(repository / ".git" / part)
    with pytest.raises(InputError, match="is a pipe"):
        said(workspace, "log")


@requirement("actions.git-read-only", "actions.closed-in-git")
def test_a_repository_without_files_is_read(workspace: Workspace, repository: Path, run: Git) -> None:
    run("clone", "-q", "--bare", ".", "copies/bare.git")
    for words in ("log --format=%s", "log --format=%s -- f.txt", "log --format=%s main"):
        assert said(workspace, *words.split(), path="copies/bare.git") == "Second commit\nFirst commit\n"
    assert "* main" in said(workspace, "branch", path="copies/bare.git/refs")
    assert said(workspace, "show", "HEAD:f.txt", path="copies/bare.git") == "one\ntwo\n"
    assert said(workspace, "blame", "-s", "f.txt", path="copies/bare.git").endswith(" 2) two\n")
    assert "TOKEN" not in said(workspace, "log", "-p", path="copies/bare.git")
    with pytest.raises(InputError, match="closed"):
        said(workspace, "show", "HEAD:.env", path="copies/bare.git")
    for words in ("status", "diff"):
        with pytest.raises(InputError, match="work tree"):
            said(workspace, words, path="copies/bare.git")
    assert "new.txt" in said(workspace, "status", path=".git/refs")


def _bare_of_links(bare: Path) -> None:
    for name in ("objects", "refs"):
        (bare / name).symlink_to(f"../../.git/{name}")


def _bare_that_says_where(bare: Path) -> None:
    (bare / "commondir").write_text("../../.git\n", encoding="ascii")


def _bare_that_borrows(bare: Path) -> None:
    shutil.copytree(bare / "../../.git/refs", bare / "refs")
    (bare / "objects" / "info").mkdir(parents=True)
    _borrow(bare / "objects", Path("../../../.git/objects"))


@requirement("actions.closed-in-git", "actions.confined")
@pytest.mark.parametrize("make", [_bare_of_links, _bare_that_says_where, _bare_that_borrows])
def test_a_repository_without_files_does_not_tell_what_another_one_has(
    repository: Path, environ: dict[str, str], make: Callable[[Path], None]
) -> None:
    bare = repository / "fake" / "bare"
    bare.mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
    make(bare)
    command = ["git", "--git-dir", str(bare), "show", "HEAD:sub/ok.txt"]
    shown = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60).stdout
    assert shown == "ok\n"  # else there is nothing to keep in
    workspace = Workspace(repository, deny=["/sub/ok.txt"])
    for path in (".", "fake/bare"):
        with pytest.raises(InputError, match=r"is closed|is of another repository"):
            said(workspace, "show", "HEAD:sub/ok.txt", path=path)
