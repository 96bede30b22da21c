"""The public collection of hostile paths, arguments of git and patterns meets the actions and does no harm.

What a case describes in words only has a twin of ours beside this file.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from onhand.actions.file_tools import reading_tools, writing_tools
from onhand.actions.files import read_file, write_file
from onhand.actions.git import run_git
from onhand.actions.grep import LinePattern
from onhand.actions.workspace import Workspace
from onhand.errors import InputError, NotFound
from onhand.tools import Registry
from public_cases import cases, needs_cases
from requirements import requirement

from .conftest import SECRET

pytestmark = needs_cases
MAKES = ("ln ", "mknod ", "mkfifo ", "mkdir ")  # what a setup of a case may run


def given(case: dict[str, Any], root: Path) -> Any:
    """What a case sends."""
    sent = case.get("input")
    if "generator" in case:
        sent = eval(case["generator"], {"__builtins__": {"chr": chr, "range": range, "str": str}})
    return sent.replace("$ROOT", str(root)) if isinstance(sent, str) else sent


@requirement("actions.confined", "actions.read-file", "actions.write-file")
@pytest.mark.parametrize(
    "case", [case for case in cases("paths") if {"input", "generator"} & set(case)], ids=lambda case: case["id"]
)
def test_every_path_is_refused_taken_as_a_name_or_read(workspace: Workspace, root: Path, case: dict[str, Any]) -> None:
    path = given(case, root)
    registry = Registry([*reading_tools(workspace), *writing_tools(workspace)])
    if not isinstance(path, str):
        assert not registry.call("read_file", {"path": path}).ok
        return
    before = _everything(root.parent)
    if case["expected"] == "accept":
        if not os.path.lexists(os.path.join(root, path)):
            write_file(workspace, path, "content", create_dirs=True)
        assert read_file(workspace, path).content
    elif case["expected"] == "literal":
        with pytest.raises(NotFound):
            read_file(workspace, path)
    elif case["name"].startswith("write"):
        with pytest.raises(InputError):
            write_file(workspace, path.replace(".toolname", ".onhand"), "mine", create_dirs=True)
        assert _everything(root.parent) == before
    else:
        if case["name"].startswith("secret"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(SECRET, encoding="utf-8")
        for name in ("read_file", "list_files", "stat_file"):
            result = registry.call(name, {"path": path})
            assert not result.ok or not result.structured.get("exists"), name
            assert SECRET not in result.text
        with pytest.raises(InputError):
            write_file(workspace, path, "mine")


@requirement("actions.confined")
@pytest.mark.parametrize(
    "case",
    [case for case in cases("paths") if case.get("setup", "").startswith((*MAKES, "read "))],
    ids=lambda case: case["id"],
)
@pytest.mark.timeout(30)
def test_every_link_and_device_is_refused_or_harmless(workspace: Workspace, root: Path, case: dict[str, Any]) -> None:
    steps = [step.strip() for step in case["setup"].split(";")]
    for step in (step for step in steps if step.startswith(MAKES)):
        made = subprocess.run(["sh", "-c", step], cwd=root, env={**os.environ, "ROOT": str(root)}, timeout=30)
        if made.returncode:
            pytest.skip("this user may not make such a thing")
    last = steps[-1].split()
    path = next((word.removeprefix("$ROOT/") for word in last if word.startswith("$ROOT/")), last[1])
    before = _everything(root.parent / "outside")
    for act in (lambda: read_file(workspace, path), lambda: write_file(workspace, path, "mine")):
        try:
            act()
        except InputError as error:
            assert SECRET not in str(error)
        else:
            assert case["expected"] == "flag"  # a hard link: it is read, and replaced when it is written
    assert _everything(root.parent / "outside") == before


def _everything(directory: Path) -> dict[str, str]:
    files = [file for file in directory.rglob("*") if file.is_file() and not file.is_symlink()]
    return {str(file): file.read_text(encoding="utf-8") for file in files}


@pytest.fixture
def planted(root: Path, tmp_path: Path) -> Path:
    """A repository in which everything is planted that git could run."""
    marker, evil = tmp_path / "pwned", tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n", encoding="utf-8")
    evil.chmod(0o755)
    who = ["-c", "user.name=a", "-c", "user.email=b"]
    (root / "f.txt").write_text("one\n", encoding="utf-8")
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "x"], ["branch", "feature/x-y_z.1"]):
        subprocess.run(["git", *words], cwd=root, check=True, timeout=60)
    (root / "f.txt").write_text("two\n", encoding="utf-8")
    keys = "core.fsmonitor core.pager diff.external diff.evil.command diff.evil.textconv filter.evil.clean gpg.program "
    keys += "filter.evil.smudge filter.evil.process core.sshCommand alias.st core.editor core.hooksPath"
    config = "".join(
        f"[{section}{f' {chr(34)}{sub}{chr(34)}' if sub else ''}]\n\t{name} = {evil}\n"
        for section, sub, name in (_parts(key) for key in keys.split())
    )
    (root / ".git" / "config").write_text(config + "[core]\n\trepositoryformatversion = 0\n", encoding="utf-8")
    (root / ".gitattributes").write_text("* filter=evil diff=evil\n", encoding="utf-8")
    for hook in ("post-checkout", "pre-commit", "post-index-change"):
        shutil.copy(evil, root / ".git" / "hooks" / hook)
    return marker


def _parts(key: str) -> tuple[str, str, str]:
    section, *sub, name = key.split(".")
    return section, ".".join(sub), name


@requirement("actions.git-read-only", "actions.git-runs-nothing-planted")
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("case", cases("git"), ids=lambda case: case["id"])
def test_every_argument_of_git_is_refused_or_only_reads(
    workspace: Workspace, root: Path, planted: Path, case: dict[str, Any]
) -> None:
    (root / "link-to-other-repo").symlink_to(root.parent / "outside")
    sent = given(case, root)
    if case["expected"] == "block":  # a command, in words
        words = [re.sub(r" on a tty$", "", sent).split()]
    else:
        words = [sent] if isinstance(sent, list) else [["log", sent], ["diff", sent], ["show", sent]]
    head = (root / ".git" / "HEAD").read_bytes()
    for args in words:
        try:
            run_git(workspace, args)
        except InputError:
            assert case["expected"] != "accept"
        else:
            assert case["expected"] != "reject"
    if case["expected"] == "reject" and isinstance(sent, str):
        with pytest.raises(InputError):
            run_git(workspace, ["status"], sent)
    assert not planted.exists()
    assert (root / ".git" / "HEAD").read_bytes() == head


@requirement("actions.grep")
@pytest.mark.parametrize("case", cases("regex"), ids=lambda case: case["id"])
def test_every_pattern_is_refused_or_quick(case: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    pattern = given(case, Path())
    began = process_time()
    try:
        found = list(LinePattern(pattern).lines(b"a" * 50_000 + b"!"))
    except InputError as error:
        assert case["expected"] != "accept"
        assert len(str(error)) < 500
    else:
        assert case["expected"] != "reject"
        assert len(found) <= 1
    assert process_time() - began < 1.0
    assert capfd.readouterr() == ("", "")
