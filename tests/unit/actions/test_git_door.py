"""What does git get to see of a repository that somebody else has prepared? Nothing that is planted runs."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from onhand.actions import git_door
from onhand.actions.workspace import Workspace
from onhand.errors import InputError
from requirements import requirement

from .conftest import SECRET, Git, said

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
        with pytest.raises(InputError, match=f"{blob}; the repository lacks it"):
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
def test_no_commit_of_a_submodule_is_told_from_outside(
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
def test_a_new_commit_of_a_submodule_is_told(workspace: Workspace, with_submodule: Path, run: Git) -> None:
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
def test_what_is_going_on_is_not_told_from_elsewhere(
    workspace: Workspace, repository: Path, secret: str, why: str
) -> None:
    going_on = repository / ".git" / "rebase-merge"
    going_on.mkdir()
    for name in ("interactive", "onto"):
        (going_on / name).touch()
    for name in ("head-name", "done", "git-rebase-todo"):
        (going_on / name).symlink_to(f"../../{secret}")
    with pytest.raises(InputError, match=why):
        said(workspace, "status")


@requirement("actions.git-read-only")
def test_references_in_a_form_that_is_not_known_are_said_to_be_that(
    workspace: Workspace, repository: Path, run: Git
) -> None:
    run("config", "extensions.refStorage", "reftable")
    with pytest.raises(InputError, match="a form that is not known"):
        said(workspace, "log")


@requirement("actions.git-read-only")
def test_git_is_asked_again_what_a_configuration_says_only_when_it_says_something_else(
    workspace: Workspace, repository: Path, run: Git
) -> None:
    git_door._entries.cache_clear()
    for _ in range(2):
        assert "origin" not in said(workspace, "status")
    assert git_door._entries.cache_info().misses == 1
    run("config", "branch.main.remote", "origin")
    run("config", "branch.main.merge", "refs/heads/main")
    run("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    assert "origin/main" in said(workspace, "status")
