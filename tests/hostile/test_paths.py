"""Whatever path a model sends, nothing outside the workspace is read or written, and honest names work."""

import os
import re
import shlex
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from hostile.cases import Case, Phrases, each, not_understood, spelled
from hostile.conftest import SECRET
from onhand.actions.file_tools import reading_tools, writing_tools
from onhand.actions.files import read_file, write_file
from onhand.actions.workspace import Workspace
from onhand.errors import InputError, NotFound
from onhand.tools import Registry
from requirements import requirement

PROGRAMS = ("ln", "mknod", "mkfifo", "mkdir", "touch", "cp", "mv", "rm", "chmod")  # what a setup may run
Call = Callable[[str, dict[str, Any]], Any]
phrases = Phrases()


@pytest.fixture
def call(workspace: Workspace) -> Call:
    """Calls a tool as a model does; no answer may show what lies outside, or an error of ours."""
    registry = Registry([*reading_tools(workspace), *writing_tools(workspace)])

    def call(name: str, arguments: dict[str, Any]) -> Any:
        result = registry.call(name, arguments)
        assert SECRET not in result.text
        assert "Traceback" not in result.text
        assert " failed: " not in result.text
        return result

    return call


def everything(directory: Path) -> dict[str, str]:
    """What the files below a directory say."""
    files = [path for path in directory.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path): path.read_text(encoding="utf-8", errors="replace") for path in files if os.access(path, os.R_OK)}


@requirement("actions.confined", "actions.read-file", "actions.write-file")
@pytest.mark.parametrize("case", each("paths", only=lambda case: not case.is_described))
def test_a_path_is_refused_taken_as_a_name_or_works(case: Case, workspace: Workspace, root: Path, call: Call) -> None:
    path = spelled(case.sent, ROOT=str(root)) if isinstance(case.sent, str) else case.sent
    if not isinstance(path, str):
        assert not call("read_file", {"path": path}).ok
        assert not call("write_file", {"path": path, "content": "mine"}).ok
        return
    before = everything(root.parent)
    if case.expected == "accept":
        if not os.path.lexists(os.path.join(root, path)):
            write_file(workspace, path, "content", create_dirs=True)
        assert call("read_file", {"path": path}).ok
        assert call("list_files", {"path": os.path.dirname(path) or "."}).ok
    elif case.expected == "literal":
        with pytest.raises(NotFound):
            read_file(workspace, path)
        assert everything(root.parent) == before
    elif case.expected == "reject":
        is_refused(case, path, workspace, root, call)
    elif case.expected == "bounded":
        call("read_file", {"path": path})
    else:
        not_understood(case, "what is expected of a path")


def is_refused(case: Case, path: str, workspace: Workspace, root: Path, call: Call) -> None:
    """Nothing is written at a path that is to be refused, and its content is not shown.

    A case may be about writing alone: protected files, such as settings, are there to be read.
    """
    is_inside = plant(root, path)
    before = everything(root.parent)
    for create in (False, True):
        with pytest.raises(InputError):
            write_file(workspace, path, "mine", create_dirs=create)
    result = call("read_file", {"path": path}) if not is_inside else call_reading(workspace, path)
    is_about_writing = re.search(r"writ|protect", f"{case.name} {case.detail}", re.IGNORECASE)
    assert is_about_writing or not result.ok, result.text
    if not os.path.realpath(os.path.join(root, path.replace("\0", ""))).startswith(str(root)):
        for name in ("list_files", "stat_file"):
            result = call(name, {"path": path})
            assert not result.ok or not result.structured.get("exists"), result.text
    assert everything(root.parent) == before


def call_reading(workspace: Workspace, path: str) -> Any:
    return Registry(reading_tools(workspace)).call("read_file", {"path": path})


def plant(root: Path, path: str) -> bool:
    """Make a file with a secret at a path inside the workspace; False where no such file can be."""
    file = Path(os.path.normpath(os.path.join(root, path.replace("\0", ""))))
    if root not in file.parents or "\0" in path or path.endswith("/") or len(file.name) > 255 or not path.strip():
        return False
    if os.path.exists(file):
        return True
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SECRET, encoding="utf-8")
    except OSError:
        return False
    return True


@requirement("actions.confined")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", each("paths", only=lambda case: case.is_described))
def test_a_file_that_is_set_up_is_refused_or_harmless(case: Case, workspace: Workspace, root: Path, call: Call) -> None:
    outside = everything(root.parent / "outside")
    phrases.act(case, workspace, root, call)
    assert everything(root.parent / "outside") == outside


@phrases.mean(r"(unlink|remove|delete|rename|replace|truncate|rewrite|swap)\w* .*(during|while|mid)")
def a_file_changes_while_it_is_read(case: Case, found: Any, workspace: Workspace, root: Path, call: Call) -> None:
    """Every answer is one whole version, or an error in words."""
    versions = [letter * 300_000 for letter in "ab"]
    file, over = root / "moving.txt", Event()
    file.write_text(versions[0])

    def move() -> None:
        while not over.is_set():
            for version in versions:
                (root / "next.txt").write_text(version)
                os.replace(root / "next.txt", file)
                if found[1].lower() in ("unlink", "remove", "delete"):
                    file.unlink()

    mover = Thread(target=move)
    mover.start()
    try:
        for _ in range(40):
            try:
                content = read_file(workspace, "moving.txt", max_bytes=1 << 20).content
            except InputError:
                continue
            assert len(set(content.strip())) == 1
    finally:
        over.set()
        mover.join()


@phrases.mean(r"(\d+) links|link (?:loop|chain|cycle)|loop of links")
def a_chain_of_links(case: Case, found: Any, workspace: Workspace, root: Path, call: Call) -> None:
    names = [f"link{number}" for number in range(int(found[1] or 41))]
    for name, target in zip(names, [*names[1:], names[0] if "loop" in case.words else "sub/ok.txt"], strict=True):
        (root / name).symlink_to(target)
    assert not call("read_file", {"path": "link0"}).ok
    assert not call("write_file", {"path": "link0", "content": "mine"}).ok
    assert call("list_files", {"path": "."}).ok


@phrases.mean(r"mount")
def a_mount_inside(case: Case, found: Any, workspace: Workspace, root: Path, call: Call) -> None:
    """Our policy: what is mounted inside the workspace belongs to it. It is proved in a namespace of its own."""
    bind = 'mount --bind "$1/outside" "$1/root/sub" && exec "$2" -m onhand run read_file "$3"'
    namespace = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount anything")
    import sys

    words = [str(root.parent), sys.executable, '{"path": "sub/secret.txt"}']
    done = subprocess.run([*namespace, "sh", "-c", bind, "-", *words], cwd=root, capture_output=True, text=True)
    assert SECRET in done.stdout, done.stderr


@phrases.mean(r"in NFC and NFD|(?:two|same) .*normali[sz]ation")
def twins_of_unicode(case: Case, found: Any, workspace: Workspace, root: Path, call: Call) -> None:
    name = case.setup.partition(" in ")[0] or "café"
    for form in ("NFC", "NFD"):
        (root / unicodedata.normalize(form, name)).write_text(form)
    for form in ("NFC", "NFD"):
        assert form in call("read_file", {"path": unicodedata.normalize(form, name)}).text  # type: ignore[arg-type]


def is_command(step: str) -> bool:
    return step.split(" ")[0] in (*PROGRAMS, "read", "write", "list", "create", "append")


@phrases.mean(r"")
def steps(case: Case, found: Any, workspace: Workspace, root: Path, call: Call) -> None:
    """Commands, and what a model does then: `ln -s A $ROOT/b; read b`. Anything else is the name of a file."""
    parts = [part.strip() for part in case.setup.split(";")]
    if not is_command(parts[0]):
        a_name(case, workspace, root, call)
        return
    (root / "closed.txt").write_text("closed")
    (root / "dir").mkdir()
    last = ""
    for part in parts:
        words = part.split()
        if words[0] in PROGRAMS:
            operands = {1: ["closed.txt"], 2: []}.get(len(words), []) if words[0] == "chmod" else []
            if words[0] == "chmod" and os.geteuid() == 0:
                pytest.skip("to root nothing is closed")
            command = shlex.join(words + operands).replace("'$ROOT", "$ROOT'") if operands else part
            made = subprocess.run(["sh", "-c", command], cwd=root, env={**os.environ, "ROOT": str(root)})
            if made.returncode:
                pytest.skip("this user may not make such a thing")
            named = [word for word in words if word.startswith("$ROOT/")] or (words + operands)[-1:]
            last = named[-1].removeprefix("$ROOT/")
        elif len(words) > 1:
            last = words[1]
    acts(case, last, workspace, root, call)


def acts(case: Case, path: str, workspace: Workspace, root: Path, call: Call) -> None:
    if case.expected == "bounded":  # a walk goes on past what it cannot enter, and says so
        assert call("list_files", {"path": "."}).ok
        return
    for name, more in (("read_file", {}), ("write_file", {"content": "mine"})):
        result = call_reading(workspace, path) if name == "read_file" else call(name, {"path": path, **more})
        if case.expected == "reject":
            assert not result.ok, result.text
        elif case.expected == "accept":
            assert result.ok, result.text


def a_name(case: Case, workspace: Workspace, root: Path, call: Call) -> None:
    """A file of that name is written, read and listed, and its name forges nothing."""
    name = case.setup
    assert case.expected == "accept", f"teach this runner what {case.setup!r} sets up"
    assert call("write_file", {"path": name, "content": "content", "create_dirs": True}).ok
    assert "content" in call("read_file", {"path": name}).text
    listed = call("list_files", {"path": os.path.dirname(name) or "."})
    assert listed.ok
    assert not [line for line in listed.text.splitlines() if line.startswith(("SYSTEM", "</"))]
