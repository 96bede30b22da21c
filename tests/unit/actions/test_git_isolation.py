"""Tests of what git sees of a repository that somebody else has prepared."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path

import pytest

from onhand import cancellation, fsio
from onhand.actions import git_isolation
from onhand.actions.git import run_git
from onhand.actions.git_isolation import ProgramOutput, run_program
from onhand.actions.workspace import Workspace
from onhand.errors import Cancelled, InputError, NotFound
from requirements import requirement
from workplace import something_to_read, still_running

from .conftest import SECRET, Git, past_the_tick, said

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


# Settings of a repository that git runs when it is asked to read there; without any, it runs the repository's hooks.
OBEYED: list[dict[str, str]] = [
    {},
    {"core.hooksPath": "{hooks}"},
    {"core.fsmonitor": "{pwn}"},
    {"filter.evil.clean": "{pwn}", "filter.evil.smudge": "{pwn}", "filter.evil.required": "true"},
    {"filter.evil.process": "{pwn}"},
    {"diff.evil.textconv": "{pwn}"},
    {"diff.evil.command": "{pwn}"},
    {"diff.external": "{pwn}"},
    {"gpg.program": "{pwn}", "log.showSignature": "true"},
    {"gpg.program": "{pwn}", "format.pretty": "%G? %s"},
    {"include.path": "../evil.cfg"},
    {"includeIf.gitdir:**.path": "../evil.cfg"},
    {"extensions.worktreeConfig": "true"},
]


# Those that it runs for other questions, or on a terminal.
IDLE: list[dict[str, str]] = [
    {"core.pager": "{pwn}", "pager.log": "{pwn}", "core.editor": "{pwn}", "sequence.editor": "{pwn}"},
    {"core.sshCommand": "{pwn}", "remote.origin.url": "ext::{pwn}", "remote.origin.promisor": "true"},
    {"alias.status": "!{pwn}", "alias.st": "!{pwn}"},
    {"core.alternateRefsCommand": "{pwn}", "core.askPass": "{pwn}", "credential.helper": "{pwn}"},
    {"core.worktree": "/etc"},
]


READING = ("status", "diff", "show", "log -p", "blame f.txt", "ls-files -m", "diff --stat HEAD")


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def plant(repository: Path, run: Git, tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Plant settings in a repository that has all that they could work on; what is there once one of them ran."""
    marker = tmp_path / "pwned"
    evil = _program(tmp_path / "evil.sh", f"touch {marker}\ncat")
    signer = _program(
        tmp_path / "signer.sh",
        "cat > /dev/null; echo '[GNUPG:] SIG_CREATED ' >&2; "
        "printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'",
    )

    def plant(settings: dict[str, str]) -> Path:
        run("-c", f"gpg.program={signer}", "commit", "-q", "--allow-empty", "-S", "-m", "Signed", "f.txt")
        (repository / "f.txt").write_text("other\n", encoding="utf-8")
        hooks = repository / ("hooks" if settings else ".git/hooks")
        hooks.mkdir(exist_ok=True)
        for hook in ("post-checkout", "post-index-change", "pre-commit", "fsmonitor-watchman"):
            shutil.copy(evil, hooks / hook)
        evil_settings = f"[core]\n\tfsmonitor = {evil}\n[diff]\n\texternal = {evil}\n"
        (repository / "evil.cfg").write_text(evil_settings, encoding="utf-8")
        (repository / ".git" / "config.worktree").write_text(evil_settings, encoding="utf-8")
        (repository / ".gitattributes").write_text("* filter=evil diff=evil\n", encoding="utf-8")
        for name in ("f.txt", "sub/ok.txt"):  # so that they have to be looked at, and what is new of one be noted
            os.utime(repository / name, (1, 1))
        for key, value in settings.items():
            run("config", key, value.format(pwn=evil, hooks=hooks))
        return marker

    return plant


@requirement("actions.git-runs-nothing-planted")
@pytest.mark.parametrize("settings", [*OBEYED, *IDLE], ids="+".join)
def test_nothing_that_is_planted_in_a_repository_runs(
    workspace: Workspace, repository: Path, plant: Callable[[dict[str, str]], Path], settings: dict[str, str]
) -> None:
    marker = plant(settings)
    index = (repository / ".git" / "index").read_bytes()
    for words in READING:
        said(workspace, *words.split())
        assert not marker.exists(), words
    assert (repository / ".git" / "index").read_bytes() == index


@requirement("actions.git-runs-nothing-planted")
@pytest.mark.parametrize("settings", OBEYED, ids="+".join)
def test_what_is_planted_runs_when_git_is_asked_directly(
    repository: Path, plant: Callable[[dict[str, str]], Path], environ: dict[str, str], settings: dict[str, str]
) -> None:
    marker = plant(settings)
    for words in READING:
        subprocess.run(["git", *words.split()], cwd=repository, env=environ, capture_output=True, timeout=60)
    assert marker.exists()  # else the test above shows nothing


@requirement("actions.git-runs-nothing-planted")
def test_what_a_repository_lacks_is_not_fetched(
    workspace: Workspace, repository: Path, run: Git, environ: dict[str, str], tmp_path: Path
) -> None:
    evil, marker = _program(tmp_path / "evil.sh", f"touch {tmp_path}/pwned"), tmp_path / "pwned"
    blob = subprocess.check_output(["git", "rev-parse", "HEAD:f.txt"], cwd=repository, text=True, timeout=60).strip()
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    settings = {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "protocol.ext.allow": "always",
    }
    for key, value in {**settings, "remote.origin.url": f"ext::{evil}", "remote.origin.promisor": "true"}.items():
        run("config", key, value)
    for words in (["show"], ["log", "-p"], ["diff"]):
        with pytest.raises(InputError, match=f"{blob}; the repository does not contain it"):
            said(workspace, *words)
    assert not marker.exists()
    subprocess.run(["git", "show"], cwd=repository, env=environ, capture_output=True, timeout=60)
    assert marker.exists()  # git itself would have fetched it


@requirement("actions.git-runs-nothing-planted")
def test_a_submodule_is_not_looked_into(workspace: Workspace, repository: Path, run: Git, tmp_path: Path) -> None:
    marker = tmp_path / "pwned"
    inner = repository / "inner"
    inner.mkdir()
    run("init", "-q", cwd=inner)
    (inner / "x").touch()
    run("add", "x", cwd=inner)
    run("commit", "-qm", "x", cwd=inner)
    (repository / ".gitmodules").write_text('[submodule "inner"]\n\tpath = inner\n\turl = x\n\tignore = none\n')
    run("add", "inner", ".gitmodules")
    run("config", "core.fsmonitor", f"touch {marker};", cwd=inner)
    (inner / "x").write_text("changed", encoding="utf-8")
    for words in (["status"], ["diff"], ["diff", "--cached"]):
        said(workspace, *words)
    assert not marker.exists()
    assert said(workspace, "log", "--format=%s", path="inner") == "x\n"
    assert not marker.exists()


def _branch_outside(git_directory: Path, outside: Path) -> None:
    (git_directory / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
    (git_directory / "refs" / "heads" / "main").unlink()
    (git_directory / "refs" / "heads" / "main").symlink_to(outside / "token")


def _packed_outside(git_directory: Path, outside: Path) -> None:
    _branch_outside(git_directory, outside)
    (git_directory / "refs" / "heads" / "main").unlink()
    (outside / "packed").write_text(f"{(outside / 'token').read_text()} refs/heads/main\n", encoding="ascii")
    (git_directory / "packed-refs").symlink_to(outside / "packed")


def _common_outside(git_directory: Path, outside: Path) -> None:
    shutil.copytree(git_directory, outside / "git")
    (outside / "git" / "refs" / "heads" / "main").write_text((outside / "token").read_text(), encoding="ascii")
    (git_directory / "commondir").write_text(f"{outside}/git", encoding="utf-8")


def _all_outside(git_directory: Path, outside: Path) -> None:
    shutil.move(git_directory, outside / "git")
    (outside / "git" / "HEAD").write_text((outside / "token").read_text(), encoding="ascii")
    git_directory.write_text(f"gitdir: {outside}/git", encoding="utf-8")


def _other_reference_outside(git_directory: Path, outside: Path) -> None:
    (git_directory / "refs" / "heads" / "main").write_text("ref: OTHER\n", encoding="ascii")
    (git_directory / "OTHER").symlink_to(outside / "token")


def _outside_behind_a_space(git_directory: Path, outside: Path) -> None:
    shutil.copytree(git_directory, outside / "git")
    (outside / "git" / "HEAD").write_text((outside / "token").read_text(), encoding="ascii")
    git_directory.rename(git_directory.with_name("git"))
    git_directory.with_name("git ").symlink_to(outside / "git")
    git_directory.write_text("gitdir: git \n", encoding="utf-8")


def _common_outside_behind_a_space(git_directory: Path, outside: Path) -> None:
    shutil.copytree(git_directory, outside / "git")
    (outside / "git" / "refs" / "heads" / "main").write_text((outside / "token").read_text(), encoding="ascii")
    (git_directory / " ").symlink_to(outside / "git")
    (git_directory / "commondir").write_text(" \n", encoding="utf-8")


@requirement("actions.git-read-only", "actions.confined")
@pytest.mark.parametrize(
    "lead",
    [
        *(_branch_outside, _packed_outside, _common_outside, _all_outside, _other_reference_outside),
        *(_outside_behind_a_space, _common_outside_behind_a_space),
    ],
)
def test_no_commit_of_a_submodule_is_shown_from_outside(
    workspace: Workspace,
    with_submodule: Path,
    environ: dict[str, str],
    tmp_path: Path,
    lead: Callable[[Path, Path], None],
) -> None:
    token = "0123456789abcdef" * 2 + "01234567"
    (tmp_path / "outside" / "token").write_text(token, encoding="ascii")
    assert "inner" in said(workspace, "ls-files", "inner")
    lead(with_submodule / "inner" / ".git", tmp_path / "outside")
    command = ["git", "diff", "--ignore-submodules=dirty"]
    shown = subprocess.run(command, cwd=with_submodule, env=environ, capture_output=True, timeout=60)
    assert token in shown.stdout.decode()  # else there is nothing to keep in
    for words in ("diff", "status", "diff --raw HEAD", "ls-files -m"):
        with pytest.raises(InputError, match="outside of the workspace"):
            said(workspace, *words.split())


@requirement("actions.git-read-only")
def test_a_new_commit_of_a_submodule_is_reported(workspace: Workspace, with_submodule: Path, run: Git) -> None:
    run("commit", "-q", "--allow-empty", "-m", "y", cwd=with_submodule / "inner")
    assert " M inner\n" in said(workspace, "status", "-s")
    assert "+Subproject commit " in said(workspace, "diff", "inner")
    (with_submodule / "inner").rename(with_submodule / "moved")
    (with_submodule / "inner").symlink_to("../outside")
    assert " T inner\n" in said(workspace, "status", "-s")  # git does not look through it


@requirement("actions.git-read-only", "actions.confined")
@pytest.mark.parametrize(
    "name",
    [
        *("../outside/secret.txt", "./../outside/secret.txt", "zz/../../outside/secret.txt", "/etc/passwd"),
        *(".git/config", "a/.GIT/config", "zz//x", "zz/x/."),
    ],
)
def test_an_index_that_names_files_outside_is_refused(
    workspace: Workspace, repository: Path, run: Git, name: str
) -> None:
    stand_in = "aa/" + "b" * (len(name) - 3)
    (repository / "aa").mkdir()
    (repository / stand_in).touch()
    run("add", "aa")
    index = repository / ".git" / "index"
    forged = index.read_bytes()[:-20].replace(stand_in.encode(), name.encode())
    index.write_bytes(forged + hashlib.sha1(forged, usedforsecurity=False).digest())
    for words in ("diff", "status", "diff --stat", "ls-files -m", "blame f.txt"):
        with pytest.raises(InputError, match=f"index names {re.escape(name)},"):
            said(workspace, *words.split())


@requirement("actions.git-read-only")
@pytest.mark.timeout(30)  # for each of the tabs, all of the name would be looked at
def test_a_long_name_in_an_index_is_looked_at_once(
    workspace: Workspace, repository: Path, environ: dict[str, str]
) -> None:
    entry = b"100644 %b\tx%b\0" % (b"1" * 40, b"\t." * 1_000_000)
    words = ["git", "update-index", "-z", "--index-info"]
    subprocess.run(words, cwd=repository, env=environ, check=True, input=entry, timeout=60)
    assert said(workspace, "ls-files", "--", "f.txt") == "f.txt\n"


@requirement("actions.git-read-only", "actions.confined")
def test_an_index_that_names_directories_outside_for_what_is_new_is_not_obeyed(
    workspace: Workspace, repository: Path, run: Git, environ: dict[str, str]
) -> None:
    (repository / "aa").mkdir()
    (repository / "aa" / "old.txt").touch()
    run("add", "aa")
    (repository / "aa" / "new.txt").touch()
    for directory in (repository, repository / "aa"):
        os.utime(directory, (1, 1))  # older than the index, so that it keeps what it knows of them
    run("-c", "core.untrackedCache=true", "status")
    index = repository / ".git" / "index"
    before, kind, after = index.read_bytes()[:-20].partition(b"UNTR")
    forged = before + kind + after.replace(b"aa\0", b"..\0")
    index.write_bytes(forged + hashlib.sha1(forged, usedforsecurity=False).digest())
    words = ["git", "--no-optional-locks", "status", "-s"]
    told = subprocess.run(words, cwd=repository, env=environ, capture_output=True, text=True, timeout=60).stdout
    assert "?? ../outside/" in told  # else there is nothing to keep in
    assert said(workspace, "status", "-s").endswith("?? aa/new.txt\n?? new.txt\n")


@requirement("actions.git-read-only", "actions.confined")
def test_a_directory_that_became_a_link_is_not_looked_through(workspace: Workspace, repository: Path, run: Git) -> None:
    (repository / "d").mkdir()
    (repository / "d" / "secret.txt").write_text("mine\n", encoding="utf-8")
    run("add", "d")
    shutil.rmtree(repository / "d")
    (repository / "d").symlink_to("../outside")
    for words in ("diff", "diff HEAD", "status -v", "diff -- d"):
        try:
            assert SECRET not in said(workspace, *words.split())
        except InputError as error:
            assert "outside of the workspace" in str(error)


@requirement("actions.git-read-only")
def test_worktrees_of_the_workspace_and_damaged_repositories(workspace: Workspace, repository: Path, run: Git) -> None:
    run("worktree", "add", "-q", "tree", "feature/x-y_z.1")
    assert said(workspace, "log", "--format=%s", path="tree") == "First commit\n"
    assert said(workspace, "status", "-s", path="tree") == ""
    assert said(workspace, "status", "--", "../f.txt", path="sub").count("f.txt") == 1
    for words in ("HEAD@{0}", "main@{0}", "main@{1}"):
        assert said(workspace, "log", "-1", "--format=%s", words, path="tree") in ("First commit\n", "Second commit\n")
    (repository / ".git" / "HEAD").write_text("ref: \n", encoding="utf-8")
    with pytest.raises(InputError, match="damaged"):
        said(workspace, "log")
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (repository / ".git" / "config").write_text("[broken", encoding="utf-8")
    with pytest.raises(InputError, match="damaged"):
        said(workspace, "log")


@requirement("actions.git-read-only")
@pytest.mark.parametrize("part", ["objects", "refs"])
def test_a_repository_without_its_main_parts_is_said_to_be_one(
    workspace: Workspace, repository: Path, part: str
) -> None:
    shutil.rmtree(repository / ".git" / part)
    for words in ("log", "status", "branch"):
        with pytest.raises(InputError, match=rf"^\.git/{part} is missing"):
            said(workspace, words)


@requirement("actions.git-read-only")
def test_status_tells_what_is_going_on(workspace: Workspace, repository: Path, run: Git) -> None:
    run("commit", "-qam", "Third commit")
    run("bisect", "start", "HEAD", "HEAD~2")
    assert "currently bisecting, started from branch 'main'" in said(workspace, "status")
    run("bisect", "reset")
    run("checkout", "-qb", "other", "HEAD~1")
    (repository / "f.txt").write_text("other\n", encoding="utf-8")
    run("commit", "-qam", "Other commit")
    with pytest.raises(subprocess.CalledProcessError):
        run("rebase", "main")
    assert "currently rebasing branch 'other'" in said(workspace, "status")
    assert "(no branch, rebasing other)" in said(workspace, "branch")
    run("rebase", "--abort")
    with pytest.raises(subprocess.CalledProcessError):
        run("cherry-pick", "main~1..main")
    assert "Cherry-pick currently in progress" in said(workspace, "status")


@requirement("actions.closed-in-git", "actions.confined")
@pytest.mark.parametrize(
    ("secret", "why"), [(".env", "is closed"), ("../outside/secret.txt", "outside of the workspace")]
)
def test_what_is_going_on_is_not_shown_elsewhere(workspace: Workspace, repository: Path, secret: str, why: str) -> None:
    going_on = repository / ".git" / "rebase-merge"
    going_on.mkdir()
    for name in ("interactive", "onto"):
        (going_on / name).touch()
    for name in ("head-name", "done", "git-rebase-todo"):
        (going_on / name).symlink_to(f"../../{secret}")
    with pytest.raises(InputError, match=why):
        said(workspace, "status")


@requirement("actions.git-read-only")
def test_an_unsupported_reference_format_is_reported(workspace: Workspace, repository: Path, run: Git) -> None:
    run("config", "extensions.refStorage", "reftable")
    with pytest.raises(InputError, match="a format that is not supported"):
        said(workspace, "log")


@requirement("actions.git-read-only")
def test_a_configuration_is_parsed_again_only_when_it_has_changed(
    workspace: Workspace, repository: Path, run: Git
) -> None:
    git_isolation._parse_configuration.cache_clear()
    for _ in range(2):
        assert "origin" not in said(workspace, "status")
    assert git_isolation._parse_configuration.cache_info().misses == 1
    run("config", "branch.main.remote", "origin")
    run("config", "branch.main.merge", "refs/heads/main")
    run("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    assert "origin/main" in said(workspace, "status")


@requirement("actions.git-read-only", "actions.confined")
def test_a_repository_outside_is_not_read(workspace: Workspace, root: Path, run: Git, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run("init", "-q", cwd=other)
    (other / "secret.txt").write_text(SECRET, encoding="utf-8")
    run("add", "secret.txt", cwd=other)
    run("commit", "-qm", SECRET, cwd=other)
    with pytest.raises(NotFound, match="not in a git repository"):
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
    with pytest.raises(InputError, match=r"outside of the workspace|by a quoted path"):
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
    monkeypatch.setattr(fsio, "TIMESTAMP_GRANULARITY_NS", -1)
    assert said(workspace, "log", "--format=%s") == "Second commit\nFirst commit\n"
    past_the_tick(tmp_path)
    take(repository / ".git" / "objects", other / ".git" / "objects")
    with pytest.raises(InputError, match=r"outside of the workspace|is a pipe"):
        said(workspace, "log")


@requirement("actions.git-read-only", "actions.confined")
def test_a_link_that_has_not_changed_is_followed_again(
    workspace: Workspace, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fsio, "TIMESTAMP_GRANULARITY_NS", -1)
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
    monkeypatch.setattr(fsio, "TIMESTAMP_GRANULARITY_NS", 3600 * 10**9)
    git_isolation._cached_special_entries.cache_clear()
    said(workspace, "log")
    assert (
        git_isolation._cached_special_entries.cache_info().currsize == 0
    )  # a change may yet come that leaves no trace
    monkeypatch.setattr(fsio, "TIMESTAMP_GRANULARITY_NS", -1)
    first = said(workspace, "log")
    monkeypatch.setattr(git_isolation, "_special_entries", lambda path: pytest.fail(f"{path} was read again"))
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
        with pytest.raises(InputError, match=r"is closed|belongs to another repository"):
            said(workspace, "show", "HEAD:sub/ok.txt", path=path)


@requirement("actions.closed-in-git", "actions.confined")
def test_what_is_closed_is_closed_in_the_past_too(workspace: Workspace, repository: Path, run: Git) -> None:
    (repository / "copy.txt").write_text("TOKEN=old\n", encoding="utf-8")
    for words in ("diff", "log -p", "show HEAD~1", "diff HEAD", "diff --word-diff"):
        assert "TOKEN" not in said(workspace, *words.split())
    blob = subprocess.run(
        ["git", "rev-parse", "HEAD:.env"], cwd=repository, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()
    for words in ("show HEAD:.env", "show HEAD:./.env", "show HEAD:.ENV", "blame .env", "diff .env", f"show {blob}"):
        with pytest.raises(InputError):
            said(workspace, *words.split())
    with pytest.raises(InputError):
        said(workspace, "diff", blob, "HEAD:f.txt")


@requirement("actions.closed-in-git", "actions.confined")
def test_no_spelling_of_a_name_or_a_revision_shows_what_is_closed(
    workspace: Workspace, repository: Path, run: Git
) -> None:
    for name in ("Server.PEM", "sub/.ENV.local", "sub/.config/gcloud/token", "sub/.AWS/credentials"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("TOKEN=hidden\n", encoding="utf-8")
    run("add", "-A", "-f")
    run("commit", "-qm", "Third commit")

    def hash_of(word: str) -> str:
        words = ["git", "rev-parse", word]
        return subprocess.run(words, cwd=repository, check=True, capture_output=True, text=True).stdout.strip()

    assert "TOKEN" not in said(workspace, "log", "-p")
    assert said(workspace, "log", "-S", "TOKEN=hid") == said(workspace, "log", "-G", "TOKEN=hid") == ""
    for words in (
        f"diff HEAD:f.txt..{hash_of('HEAD:Server.PEM')}",
        "diff HEAD:f.txt..HEAD:Server.PEM",
        f"show {hash_of('HEAD:sub/.AWS')}:credentials",
        "diff HEAD:sub HEAD:sub/.config",
        "show HEAD:./sub/.config//gcloud/token",
        "show HEAD:././sub/./.config/./gcloud/token",
        "show HEAD:./sub/.config//gcloud",
        "show HEAD@{0:x}:.env",  # to git, the first colon is between the braces
        f"show a{{-g{hash_of('HEAD')}:x}}:.env",
        f"show HEAD:x-g{hash_of('HEAD:Server.PEM')}",  # as `describe` names commits, which git takes at its end
        f"show HEAD:x-g{hash_of('HEAD:Server.PEM')[:7]}^{{blob}}",
        f"diff HEAD:x-g{hash_of('HEAD:Server.PEM').upper()} HEAD:f.txt",
    ):
        with pytest.raises(InputError):
            said(workspace, *words.split())
    assert "+two" in said(workspace, "diff", "HEAD~2:f.txt", "HEAD~1:f.txt")
    assert said(workspace, "show", "HEAD~2:f.txt") == "one\n"


@pytest.fixture
def renamed(repository: Path, run: Git) -> Path:
    """A repository in which a closed file became an open one, without what was secret in it."""
    lines = "".join(f"NAME_{number}=value\n" for number in range(20))
    (repository / ".env").write_text(f"{lines}TOKEN={SECRET}\n", encoding="utf-8")
    run("commit", "-qam", "With the secret")
    run("checkout", "-qb", "side")
    (repository / "side.txt").touch()
    run("add", "side.txt")
    run("commit", "-qm", "Beside")
    run("checkout", "-q", "main")
    run("merge", "-q", "--no-ff", "--no-commit", "side")
    run("mv", ".env", "env.sample")
    (repository / "env.sample").write_text(f"{lines}TOKEN=\n", encoding="utf-8")
    run("commit", "-qam", "Merged")
    run("tag", "merge")
    (repository / "side.txt").write_text("more\n", encoding="utf-8")
    run("commit", "-qam", "Later")
    return repository


@requirement("actions.closed-in-git", "actions.confined")
@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize(
    "words",
    [
        *("show merge", "show -M merge", "show HEAD merge", "show merge~1..merge", "show -C --tags", "show -n 3"),
        *("show -2 HEAD", "show --max-count=9", "show --skip 1 -n 2", "show --reverse -5", "show --all"),
        *("log -p --first-parent", "log -p --follow -- env.sample", "diff merge~1 HEAD", "diff -M merge~1...merge"),
        *(
            "blame -C env.sample",
            "show --word-diff merge",
            "show --graph merge~1..merge",
            "show --stat -p -W merge",
            "show -R merge",
        ),
        *(
            "show --format=%B --raw -p merge",
            "show -U0 -w merge",
            "show --follow merge -- env.sample",
            "show -G . merge",
        ),
        *(
            "show -m merge",
            "log -mp -C1%",
            "show -m --find-renames=1% merge",
            "log -p --find-copies --full-diff env.sample",
        ),
        *("diff --no-prefix -M1% merge~1 merge", "diff --patience --patch-with-stat -C1% merge~1 HEAD"),
    ],
)
def test_what_was_closed_under_another_name_does_not_come_to_light(workspace: Workspace, words: str) -> None:
    assert SECRET not in said(workspace, *words.split())


@requirement("actions.closed-in-git", "actions.confined")
@pytest.mark.parametrize("words", ["show", "show -C", "show -n 3", "show --word-diff -M", "show -W HEAD~1..HEAD"])
def test_what_was_closed_before_it_was_renamed_does_not_come_to_light(
    workspace: Workspace, renamed: Path, run: Git, words: str
) -> None:
    run("mv", "env.sample", ".env")
    with (renamed / ".env").open("a", encoding="utf-8") as file:
        file.write(SECRET)
    run("commit", "-qam", "Closed")
    run("mv", ".env", "env.sample")
    (renamed / "env.sample").write_text((renamed / "env.sample").read_text().replace(SECRET, ""), encoding="utf-8")
    run("commit", "-qam", "Opened")
    text = said(workspace, *words.split())
    assert SECRET not in text
    assert "rename from .env" in text


@requirement("actions.git-read-only")
def test_a_commit_that_is_not_a_merge_is_shown_with_what_was_renamed(
    workspace: Workspace, repository: Path, run: Git
) -> None:
    run("mv", "sub/ok.txt", "sub/moved.txt")
    run("commit", "-qm", "Moved")
    for words in ("show HEAD", "show -n 2", "show HEAD~1..HEAD"):
        assert "rename from sub/ok.txt" in said(workspace, *words.split())


@requirement("actions.closed-in-git", "actions.confined")
@pytest.mark.parametrize(
    ("closed", "name"),
    [
        ("my secrets.txt", "My Secrets.txt"),
        ("secret.txt  ", "secret.txt"),
        ("Übung/", "übung/x.txt"),
        ("Übung.md", "u\u0308bung.md"),
        ("U\u0308bung.md", "übung.md"),
        ("日本.txt", "日本.txt"),
        ("secret?.txt", "secretü.txt"),
        ("[a-c]x.txt", "BX.txt"),
        ("[]a]x.txt", "]x.txt"),
        ("\\secret.txt", "SECRET.txt"),
        ('say "no".txt', 'say "no".txt'),
        ("**/# this/", "a/# this/x.txt"),
        ("straße.txt", "STRASSE.txt"),
        (".env.d", "sub/.env.d/.env.example"),
    ],
)
def test_a_pattern_of_any_form_closes_to_git_too(root: Path, run: Git, closed: str, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(SECRET, encoding="utf-8")
    run("init", "-q")
    run("add", "-A", "-f")
    run("commit", "-qm", "All")
    workspace = Workspace(root, deny=[closed])
    with pytest.raises(InputError, match="closed"):
        workspace.resolve(name)
    text = said(workspace, "log", "-p")
    assert SECRET not in text
    assert "+ok" in text


@requirement("actions.closed-in-git")
def test_what_the_user_opens_by_its_name_is_open_to_git_too(repository: Path) -> None:
    assert "+TOKEN=new" in run_git(Workspace(repository, allow=[".env"]), ["diff"]).output
    assert "+TOKEN=new" in run_git(Workspace(repository, allow=[".e*/"]), ["diff", ".env"]).output
    for others in (["sub/"], ["*.pem"], ["env"], ["[.]envx"], [".e*", "!.env"]):
        assert "TOKEN" not in run_git(Workspace(repository, allow=others), ["diff"]).output


@requirement("actions.closed-in-git", "actions.confined")
def test_a_pattern_that_git_cannot_be_told_is_said_to_be_one(repository: Path) -> None:
    with pytest.raises(InputError, match="too long for git"):
        run_git(Workspace(repository, deny=["x" * 1_000]), ["log", "-p"])


@requirement("actions.closed-in-git", "actions.confined")
@pytest.mark.parametrize(
    ("closed", "name"),
    [
        *(("app/Main/private", "main"), ("/app/main/private/*", "main"), ("app/*/private/", "main")),
        *(("app/**/private", "main"), ("app/m\\ain/priv*", "main"), ("private", "main"), ("app/#1/private", "#1")),
    ],
)
def test_what_is_closed_from_the_workspace_on_is_closed_in_a_repository_further_down(
    root: Path, run: Git, closed: str, name: str
) -> None:
    top = root / "app" / name
    (top / "private").mkdir(parents=True)
    (top / "private" / "x.txt").write_text(SECRET, encoding="utf-8")
    (top / "open.txt").write_text("for everybody\n", encoding="utf-8")
    run("init", "-q", cwd=top)
    run("add", "-A", cwd=top)
    run("commit", "-qm", "Both", cwd=top)
    for workspace, path in (
        (Workspace(root, deny=[closed]), f"app/{name}"),
        (Workspace(top, deny=[closed], project=str(root)), "."),
    ):
        text = run_git(workspace, ["log", "-p"], path).output
        assert SECRET not in text
        assert "+for everybody" in text


def ran(script: str, timeout_s: float = 60, max_bytes: int = 1000) -> ProgramOutput:
    return run_program(["/bin/sh", "-c", script], "/", {"PATH": os.defpath}, timeout_s, max_bytes)


@requirement("actions.git-read-only")
def test_what_a_program_says_is_read_up_to_its_room() -> None:
    assert ran("printf abc; printf no >&2; exit 3") == ProgramOutput(3, b"abc", "no")
    assert ran("printf abc", max_bytes=3) == ProgramOutput(0, b"abc", "")
    cut = ran("while :; do echo abc; done", max_bytes=5)
    assert (cut.out, cut.is_cut) == (b"abc\na", True)


@requirement("actions.git-read-only")
def test_a_program_reads_nothing_and_least_of_all_what_was_sent_to_us() -> None:
    with something_to_read() as left:
        assert ran("cat", timeout_s=10) == ProgramOutput(0, b"", "")
        assert left() == b"something"


@requirement("actions.git-read-only")
def test_a_program_whose_time_is_over_is_ended_with_its_children() -> None:
    marker = f"94{os.getpid()}"
    assert ran(f"sleep {marker} & wait", timeout_s=0.5).is_late
    assert still_running(f"sleep {marker}") == []


@requirement("actions.end-with-the-command", "actions.git-read-only")
def test_a_program_that_nobody_waits_for_is_ended(tmp_path: Path) -> None:
    number = tmp_path / "pid"

    def asked(is_wanted: Callable[[], bool]) -> None:
        cancellation.continue_while(is_wanted)
        ran(f"echo $$ > {number}.new; mv {number}.new {number}; exec sleep 1000")

    with pytest.raises(Cancelled):
        copy_context().run(asked, lambda: not number.exists())
    with pytest.raises(ProcessLookupError):
        os.kill(int(number.read_text(encoding="utf-8")), 0)
