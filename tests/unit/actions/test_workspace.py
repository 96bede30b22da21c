"""Does every path stay in the workspace, whatever it says and wherever links lead?"""

import errno
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from onhand.actions.workspace import (
    DIRECTORY_FLAGS,
    MAX_LINKS,
    Workspace,
    display,
    explain_os_errors,
    open_beneath,
    open_stepwise,
)
from onhand.errors import InputError, NotFound
from requirements import requirement

from .conftest import SECRET

pytestmark = requirement("actions.confined")

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="making links needs a privilege there")


def content(workspace: Workspace, path: str) -> str:
    with open(workspace.open_file(workspace.resolve(path), path), encoding="utf-8") as file:
        return file.read()


def refusal(workspace: Workspace, path: str) -> str:
    with pytest.raises(InputError) as refused:
        content(workspace, path)
    assert SECRET not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "././../outside/secret.txt",
        "sub/..//..",
        "{root}-evil/secret.txt",
        "{root}/../outside/secret.txt",
        "{root}//..//outside/secret.txt",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/../outside/secret.txt",
        "/dev/tcp/127.0.0.1/80",
        "~/.ssh/id_rsa",
        "~",
        "file:///etc/passwd",
        "FILE://localhost/etc/passwd",
        "C:\\Windows\\win.ini",
        "C:/Windows/win.ini",
        "\\\\server\\share\\file",
    ],
)
def test_what_leads_out_is_refused_by_the_rule_before_anything_is_opened(
    workspace: Workspace, root: Path, path: str
) -> None:
    assert "outside of the workspace" in refusal(workspace, path.format(root=root))


@pytest.mark.parametrize(
    "path",
    [
        "%2e%2e%2foutside%2fsecret.txt",
        "..\\outside\\secret.txt",
        "．．/outside/secret.txt",
        "․․/outside/secret.txt",
        ".../outside",
        "sub/a\nb.txt",
        " sub/ok.txt",
    ],
)
def test_what_only_looks_like_a_way_out_is_a_name_that_nothing_has(workspace: Workspace, path: str) -> None:
    with pytest.raises(NotFound) as missing:
        content(workspace, path)
    assert "\n" not in str(missing.value)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("ok.txt\0.png", "NUL"),
        ("sub/\0/../../outside", "NUL"),
        ("sub/\ud800.txt", "surrogate"),
        ("sub/" + "n" * 256, "a name has at most 255 bytes"),
        ("a/" * 2040 + "b", "a whole path 4,096"),
        ("/".join(["d" * 200] * 21), "more than the limit of"),
        ("sub/ok.txt/", "not a directory"),
        ("sub/ok.txt/.", "not a directory"),
        ("sub/ok.txt/more", "not a directory"),
        ("sub", "a directory, not a regular file"),
    ],
)
def test_a_malformed_path_is_refused_with_the_reason(workspace: Workspace, path: str, reason: str) -> None:
    assert reason in refusal(workspace, path)


@pytest.mark.parametrize("sent", [42, None, ["sub"], b"sub/ok.txt"])
def test_what_is_not_text_is_refused(workspace: Workspace, sent: object) -> None:
    with pytest.raises(InputError):
        workspace.resolve(sent)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["100%.txt", "a#b.txt", "日本語.txt", "🧪.md", "a..b.txt", "-rf", "n" * 255, "cafe\u0301", "café", "a\nb", "$(id)"],
)
def test_odd_names_are_names(workspace: Workspace, root: Path, name: str) -> None:
    (root / "sub" / name).write_text(name, encoding="utf-8")
    assert content(workspace, f"sub/{name}") == name
    assert content(workspace, f"sub/../sub/./{name}") == name
    assert content(workspace, f"{root}/sub//{name}") == name


@needs_links
@pytest.mark.parametrize(
    "target",
    [
        "/etc/passwd",
        "../outside/secret.txt",
        "../../outside/secret.txt",
        "/proc/self/root/etc/passwd",
        "/dev/zero",
        "..",
    ],
)
def test_a_link_that_leads_out_is_not_followed(workspace: Workspace, root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    assert "outside of the workspace" in refusal(workspace, "link")
    assert "outside of the workspace" in refusal(workspace, "link/secret.txt")


@needs_links
def test_a_directory_that_is_a_link_out_is_not_entered(workspace: Workspace, root: Path) -> None:
    (root / "d").symlink_to("../outside")
    for refused in ("d/secret.txt", "d/new", "sub/../d/secret.txt"):
        with pytest.raises(InputError, match="outside of the workspace"):
            workspace.resolve_for_writing(refused)


@needs_links
def test_links_that_stay_inside_are_followed_up_to_a_number(workspace: Workspace, root: Path) -> None:
    (root / "relative").symlink_to("sub/ok.txt")
    (root / "absolute").symlink_to(root / "sub" / "ok.txt")
    (root / "sub" / "up").symlink_to("../sub")
    for path in ("relative", "absolute", "sub/up/up/ok.txt"):
        assert content(workspace, path) == "ok\n"
    (root / "0").symlink_to("sub/ok.txt")
    for number in range(MAX_LINKS):
        (root / str(number + 1)).symlink_to(str(number))
    assert content(workspace, str(MAX_LINKS - 1)) == "ok\n"
    assert "links" in refusal(workspace, str(MAX_LINKS))
    (root / "loop").symlink_to("loop")
    assert "loop" in refusal(workspace, "loop")


@needs_links
@pytest.mark.timeout(20)
def test_pipes_sockets_and_devices_are_refused_without_waiting(workspace: Workspace, root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert "a pipe, not a regular file" in refusal(workspace, "pipe")
    here = os.getcwd()
    os.chdir(root)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
            assert "not a regular file" in refusal(workspace, "socket")
    finally:
        os.chdir(here)
    try:
        os.mknod(root / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        return
    assert "not a regular file" in refusal(workspace, "zero") or os.geteuid() != 0


@needs_links
@pytest.mark.parametrize(
    "path",
    ".env .ENV sub/.env.local keys/id_rsa x.p12 deep/down/server.PEM .npmrc .netrc .aws/credentials .ssh/config "
    ".kube/config .git-credentials .docker/config.json dotfiles/.config/gh/hosts.yml home/.cargo/credentials".split(),
)
def test_secrets_are_closed_by_every_name_they_have(workspace: Workspace, root: Path, path: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(SECRET, encoding="utf-8")
    (root / "harmless.txt").symlink_to(path)
    assert "closed" in refusal(workspace, path)
    assert "closed" in refusal(workspace, "harmless.txt")


@pytest.mark.parametrize("path", [".env.example", "id_rsa.pub", "environment.md", "keys/README.md", "monkey.py"])
def test_what_is_only_named_like_a_secret_is_open(workspace: Workspace, root: Path, path: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("open", encoding="utf-8")
    assert content(workspace, path) == "open"


@pytest.mark.parametrize(
    "path",
    ".git/hooks/pre-commit .git/config .GIT/config vendor/.git/config .git .gitmodules .bashrc .claude/settings.json "
    ".mcp.json .vscode/tasks.json .idea/x.xml .onhand/config.toml onhand.toml .AGENTS/conventions.md AGENTS.md "
    ".codex/config.toml .cursor/mcp.json .gemini/settings.json .CODEX/hooks.json .g\u200cit/config CLAUDE\ufe0f.md "
    "packages/a/CLAUDE.md sub/../.git/config .husky/pre-push dotfiles/.config/fish/config.fish".split(),
)
def test_what_programs_obey_is_protected_also_before_it_exists(workspace: Workspace, path: str) -> None:
    with pytest.raises(InputError, match="protected"):
        workspace.resolve_for_writing(path)


@pytest.mark.parametrize("path", ["new.txt", "sub/new.py", ".gitignore", ".github/workflows/ci.yml", "git/config"])
def test_what_is_ordinary_may_be_written(workspace: Workspace, path: str) -> None:
    assert workspace.name(workspace.resolve_for_writing(path)) == path


@requirement("actions.confined")
@pytest.mark.parametrize("last", ["HEAD", "objects/x", "refs/heads/x"])
def test_no_directory_is_made_a_repository_that_git_would_obey(workspace: Workspace, root: Path, last: str) -> None:
    for name in {"HEAD", "objects/x", "refs/heads/x"} - {last}:
        workspace.resolve_for_writing(f"sub/lib/{name}")
        (root / "sub/lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "sub/lib" / name).write_text("ref: refs/heads/x", encoding="utf-8")
    workspace.resolve_for_writing("sub/lib/config")
    with pytest.raises(InputError, match="protected"):
        workspace.resolve_for_writing(f"sub/lib/{last}")
    (root / "sub/lib" / last).parent.mkdir(parents=True, exist_ok=True)
    (root / "sub/lib" / last).touch()
    for path in ("sub/lib/config", "sub/lib/hooks/pre-commit", "sub/lib/HEAD"):
        with pytest.raises(InputError, match="protected"):
            workspace.resolve_for_writing(path)
    for path in ("sub/config", "sub/lib/tree/src/app.py"):  # beside it, and in a working tree that is kept there
        workspace.resolve_for_writing(path)
    Workspace(root, allow=["sub/lib/"]).resolve_for_writing("sub/lib/config")


@requirement("actions.confined")
@pytest.mark.parametrize(("first", "last"), [("HEAD", "commondir"), ("commondir", "HEAD")])
def test_no_directory_is_made_a_repository_that_borrows_from_another(
    workspace: Workspace, root: Path, first: str, last: str
) -> None:
    workspace.resolve_for_writing(f"sub/{first}")
    (root / "sub" / first).touch()
    with pytest.raises(InputError, match="protected"):
        workspace.resolve_for_writing(f"sub/{last}")


def test_the_user_closes_more_and_opens_what_was_closed(root: Path) -> None:
    (root / "plans").mkdir()
    for name in ("plans/secret.txt", ".env", "test.pem"):
        (root / name).write_text("text", encoding="utf-8")
    workspace = Workspace(root, deny=["plans/"], protect=["*.lock"], allow=[".env", ".AGENTS/notes.md"])
    assert "closed" in refusal(workspace, "plans/secret.txt")
    assert "closed" in refusal(workspace, "test.pem")
    assert content(workspace, ".env") == "text"
    assert workspace.resolve_for_writing(".AGENTS/notes.md").inner == ".AGENTS/notes.md"
    for path in ("uv.lock", ".AGENTS/overview.md"):
        with pytest.raises(InputError, match="protected"):
            workspace.resolve_for_writing(path)


@pytest.mark.parametrize("closed", [{"deny": ["*.db", "!.env"]}, {"protect": ["!.git"]}])
def test_what_closes_more_cannot_open_anything(root: Path, closed: dict[str, list[str]]) -> None:
    with pytest.raises(InputError, match=r"workspace\.allow"):
        Workspace(root, **closed)  # type: ignore[arg-type]


def test_more_roots_are_read_or_written_as_they_were_given(root: Path, tmp_path: Path) -> None:
    more, other = tmp_path / "more", tmp_path / "other"
    for directory in (more, other):
        directory.mkdir()
        (directory / "page.md").write_text(directory.name, encoding="utf-8")
    workspace = Workspace(root, read_only_roots=[str(more)], writable_roots=[str(other)])
    assert content(workspace, str(more / "page.md")) == "more"
    assert workspace.name(workspace.resolve(str(more / "page.md"))) == str(more / "page.md")
    assert workspace.resolve_for_writing(str(other / "page.md")).path == str(other / "page.md")
    with pytest.raises(InputError, match="read-only"):
        workspace.resolve_for_writing(str(more / "page.md"))
    assert "outside of the workspace" in refusal(workspace, str(more / ".." / "outside" / "secret.txt"))
    with pytest.raises(InputError, match="read-only"):
        Workspace(root, writable=False).resolve_for_writing("new.txt")


def test_the_environment_that_runs_us_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    workspace = Workspace(tmp_path)
    with pytest.raises(InputError, match="protected"):
        workspace.resolve_for_writing(".venv/bin/rg")
    assert workspace.resolve_for_writing(".venv2/bin/rg").inner == ".venv2/bin/rg"
    inside = Workspace(tmp_path / ".venv" / "bin")  # such as a project below the prefix of a system's Python
    assert inside.resolve_for_writing("rg").inner == "rg"


@needs_links
def test_a_root_is_known_by_the_name_that_the_user_gave_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    workspace = Workspace(tmp_path / "alias")
    assert workspace.root == str(root)
    assert content(workspace, str(tmp_path / "alias" / "sub" / "ok.txt")) == "ok\n"


def test_a_directory_to_run_in_is_inside_and_is_one(workspace: Workspace, root: Path) -> None:
    assert workspace.directory() == str(root)
    assert workspace.directory("sub") == str(root / "sub")
    with pytest.raises(InputError, match="not a directory"):
        workspace.directory("sub/ok.txt")
    with pytest.raises(NotFound):
        workspace.directory("missing")
    with pytest.raises(InputError, match="outside"):
        workspace.directory("..")


def test_a_workspace_needs_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a directory"):
        Workspace(tmp_path / "missing")


def test_where_nothing_can_be_written_is_reported_with_what_to_do() -> None:
    with (
        pytest.raises(InputError, match="read-only file system; nothing was written: continue without it"),
        explain_os_errors("a.txt"),
    ):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_path_in_a_message_cannot_move_a_cursor_or_begin_a_line() -> None:
    assert display("a\x1b[2J\nb\u202e" + "c" * 500).startswith("a[U+001B][2J\\nb[U+202E]cc")
    assert len(display("c" * 500)) == 200


def test_a_read_only_root_is_one_inside_of_another_root_too(root: Path) -> None:
    (root / "vendor" / "patched").mkdir(parents=True)
    vendor, patched = str(root / "vendor"), str(root / "vendor" / "patched")
    workspace = Workspace(root, read_only_roots=[vendor], writable_roots=[patched])
    for path in ("vendor/a.c", f"{vendor}/a.c", f"{vendor}/deep/a.c"):
        with pytest.raises(InputError, match="read-only"):
            workspace.resolve_for_writing(path)
    assert workspace.resolve_for_writing("vendor/patched/a.c").path == f"{patched}/a.c"
    assert workspace.resolve_for_writing("vendored.c").inner == "vendored.c"


Opened = Callable[..., int]
WAYS: list[Opened] = [open_beneath, open_stepwise]


@pytest.mark.parametrize("opened", WAYS)
def test_a_file_below_is_opened_and_no_descriptor_is_left_open(root: Path, opened: Opened) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    directory = os.open(root, DIRECTORY_FLAGS)
    for inner in ("sub/ok.txt", "sub", ""):
        number = opened(directory, inner, os.O_RDONLY)
        assert not os.get_inheritable(number)
        os.close(number)
    with pytest.raises(FileNotFoundError):
        opened(directory, "sub/missing/deeper", os.O_RDONLY)
    os.close(directory)
    assert not before or len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("opened", WAYS)
@pytest.mark.parametrize("inner", ["..", "../outside/secret.txt", "sub/../../outside", "/etc/passwd", "sub//ok.txt"])
def test_a_path_that_is_not_plain_is_refused(root: Path, opened: Opened, inner: str) -> None:
    directory = os.open(root, DIRECTORY_FLAGS)
    with pytest.raises(OSError):
        opened(directory, inner, os.O_RDONLY)
    os.close(directory)


@pytest.mark.parametrize("opened", WAYS)
@pytest.mark.parametrize("target", ["sub/ok.txt", "../outside/secret.txt", "/etc/passwd"])
def test_no_link_is_followed_wherever_it_leads(root: Path, opened: Opened, target: str) -> None:
    (root / "link").symlink_to(target)
    (root / "linked").symlink_to("sub")
    directory = os.open(root, DIRECTORY_FLAGS)
    for inner in ("link", "linked/ok.txt"):
        with pytest.raises(OSError):
            opened(directory, inner, os.O_RDONLY)
    os.close(directory)
