"""Whatever git is asked to do in a repository that somebody prepared, it only reads, and runs nothing of theirs."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hostile.cases import Case, each, spelled
from onhand.actions.git import run_git
from onhand.actions.workspace import Workspace
from onhand.errors import InputError
from requirements import requirement

WHO = ("-c", "user.name=a", "-c", "user.email=b")
KEYS = "core.fsmonitor core.pager diff.external diff.evil.command diff.evil.textconv filter.evil.clean gpg.program "
KEYS += "filter.evil.smudge filter.evil.process core.sshCommand alias.st core.editor core.hooksPath core.askPass "
KEYS += (
    "credential.helper sequence.editor merge.evil.driver pager.log pager.diff core.gitProxy uploadpack.packObjectsHook"
)
HOOKS = ("post-checkout", "pre-commit", "post-index-change", "post-merge", "pre-push", "reference-transaction")


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *WHO, *words], cwd=root, check=True, timeout=60, capture_output=True)


def setting(key: str, value: str) -> str:
    section, *sub, name = key.split(".")
    head = f'[{section} "{".".join(sub)}"]' if sub else f"[{section}]"
    return f"{head}\n\t{name} = {value}\n"


@pytest.fixture
def planted(root: Path, tmp_path: Path) -> Path:
    """A repository in which everything is planted that git could run: the file that it would make."""
    marker, evil = tmp_path / "pwned", tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n", encoding="utf-8")
    evil.chmod(0o755)
    git(root, "init", "-q", "-b", "main")
    for text in ("zero\n", "one\n", "two\n"):
        (root / "f.txt").write_text(text, encoding="utf-8")
        git(root, "add", "-A")
        git(root, "commit", "-qm", text)
    (root / "f.txt").write_text("three\n", encoding="utf-8")
    included = root.parent / "evil.cfg"
    included.write_text(setting("core.fsmonitor", str(evil)))
    told = "".join(setting(key, str(evil)) for key in KEYS.split())
    told += setting("include.path", str(included)) + setting("core.repositoryformatversion", "1")
    told += setting("extensions.worktreeConfig", "true")
    told += '[submodule "s"]\n\turl = ext::sh -c touch% ' + str(marker) + "\n\tactive = true\n"
    (root / ".git" / "config").write_text(told, encoding="utf-8")
    (root / ".git" / "config.worktree").write_text(setting("core.fsmonitor", str(evil)), encoding="utf-8")
    (root / ".gitmodules").write_text(f'[submodule "s"]\n\tpath = "s\\r"\n\turl = ext::sh -c touch% {marker}\n')
    (root / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n", encoding="utf-8")
    for hook in HOOKS:
        shutil.copy(evil, root / ".git" / "hooks" / hook)
    return marker


def commands(case: Case, root: Path) -> list[list[str]]:
    """The words after `git` that a case means: a list is a command, a text one of its revisions or paths."""
    sent = case.sent
    if isinstance(sent, list):
        return [[spelled(word, ROOT=str(root)) for word in sent]]
    assert isinstance(sent, str), f"teach this runner what {case} sends"
    sent = spelled(sent, ROOT=str(root))
    if case.expected == "block":  # a command, in words
        return [re.sub(r" on a tty$", "", sent).split()]
    return [[verb, sent] for verb in ("log", "diff", "show")]


def make_revision(root: Path, name: str) -> None:
    """Let a name that is to work be a branch, unless it means something already."""
    known = subprocess.run(["git", "rev-parse", "-q", "--verify", name], cwd=root, capture_output=True)
    if known.returncode and name not in (path.name for path in root.iterdir()):
        git(root, "update-ref", f"refs/heads/{name}", "HEAD")


@requirement("actions.git-read-only", "actions.git-runs-nothing-planted")
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("case", each("git"))
def test_git_refuses_or_only_reads(
    case: Case, workspace: Workspace, root: Path, request: pytest.FixtureRequest
) -> None:
    git(root, "init", "-q", "-b", "main")
    (root / "link-to-other-repo").symlink_to(root.parent / "outside")
    marker: Path = request.getfixturevalue("planted")
    if case.expected == "accept" and isinstance(case.sent, str):
        (root / ".git" / "hooks" / "reference-transaction").unlink()
        make_revision(root, case.sent)
        marker.unlink(missing_ok=True)
    head = (root / ".git" / "HEAD").read_bytes()
    for words in commands(case, root):
        try:
            run_git(workspace, words)
        except InputError as error:
            assert case.expected != "accept", error
        else:
            assert case.expected != "reject", words
    if case.expected == "reject" and isinstance(case.sent, str):
        with pytest.raises(InputError):
            run_git(workspace, ["status"], spelled(case.sent, ROOT=str(root)))
    assert not marker.exists()
    assert (root / ".git" / "HEAD").read_bytes() == head
