"""A command sees the project as it is, and what it leaves behind under protected names is moved away and not lost."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from onhand.errors import InputError, NotFound, SandboxError
from onhand.sandbox import layout, quarantine
from onhand.sandbox.policy import Policy
from onhand.sandbox.quarantine import (
    Watch,
    choose_files,
    finish_killed_commands,
    list_quarantine,
    move_names_of_running_commands,
    restore_file,
)
from onhand.sandbox.sandbox import Command, Sandbox
from requirements import requirement
from workplace import NOBODY, backend, give, policy_for, python_inside, quarantine_of, run

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}
TMPFILE = """
import os
inner = os.open("src", os.O_TMPFILE | os.O_RDWR, 0o644)
os.write(inner, b"evil")
os.link(f"/proc/self/fd/{inner}", "src/AGENTS.md", src_dir_fd=inner)  # which follows the link
"""


def kept(place: Path) -> dict[str, str]:
    """Everything in quarantine, by the path where it was."""
    return {os.path.relpath(one.path, place): one.stored for one in list_quarantine(quarantine_of(place))}


def files(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if not path.is_dir() or path.is_symlink()}


@pytest.fixture
def watch(place: Path) -> Watch:
    return Watch(policy_for(place))


@requirement("sandbox.quarantine")
def test_a_command_sees_the_project_as_it_is_and_creates_what_it_likes_in_its_root(place: Path) -> None:
    (place / "AGENTS.md").write_text("be kind")
    give(place)
    line = "ls -A | sort; echo hi > out.txt; mkdir build; touch build/x"
    ended = run(backend("bubblewrap"), policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert (ended.code, ended.printed.split()) == (0, ["AGENTS.md", "notes.txt", "src"])
    assert files(place) == {"AGENTS.md", "notes.txt", "out.txt", "build/x", "src/app.py"}
    assert kept(place) == {}


@requirement("sandbox.quarantine")
@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("echo evil > AGENTS.md", "AGENTS.md"),
        ("echo evil > src/x && mv src/x .mcp.json", ".mcp.json"),
        ("cp notes.txt src/x && ln src/x CLAUDE.md && rm src/x", "CLAUDE.md"),
        ("ln -s notes.txt GEMINI.md", "GEMINI.md"),
        ("ln -s nowhere onhand.toml", "onhand.toml"),
        ("echo evil > agents.MD", "agents.MD"),
        ("mkdir -p src/deep/x && echo evil > src/deep/x/task && mv src/deep/x src/deep/.vscode", "src/deep/.vscode"),
        ("mkdir -p a/b && echo evil > a/b/AGENTS.md && mv a src/c", "src/c/b/AGENTS.md"),
        ("mkdir new && echo evil > new/.cursorrules && chmod 500 new", "new/.cursorrules"),
        ("mkdir .roo && echo evil > .roo/x && chmod 500 .roo", ".roo"),
        ("(setsid sh -c 'sleep 0.1; echo evil > AGENTS.md' &); echo evil > CLAUDE.md", "CLAUDE.md"),
        ("echo evil > AGENTS.md; kill -9 $$", "AGENTS.md"),
        ("mkdir -p src/.github; ln -s src/.github .github; echo x > .github/copilot-instructions.md", ".github"),
        ("mkdir -p sub/.git && echo evil > sub/.git/config", "sub/.git"),
        ("mkdir .git && echo evil > .git/config", ".git"),
        ("mkdir 'src/a\nb' && touch 'src/a\nb/.windsurfrules'", "src/a\nb/.windsurfrules"),
        ("mkdir -p x/.direnv; mkfifo src/AGENTS.md; mkfifo x/.direnv/f", "src/AGENTS.md"),
    ],
)
def test_a_protected_name_is_moved_away_however_it_came_about(place: Path, line: str, made: str) -> None:
    before = files(place)
    run(backend("bubblewrap"), policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert made in kept(place)
    assert not os.path.lexists(place / made)
    assert files(place) - {"src/.github/copilot-instructions.md"} == before


@requirement("sandbox.quarantine")
def test_a_name_for_a_file_that_had_none_is_moved_away(sandbox: Sandbox, place: Path) -> None:
    ended = run(sandbox, policy_for(place), python_inside(), "-c", TMPFILE, cwd=place)
    assert (place / "src" / "AGENTS.md").exists() is False
    assert list(kept(place)) == ["src/AGENTS.md"] or "not supported" in ended.printed, ended.printed


@requirement("sandbox.quarantine")
def test_a_link_to_instructions_is_as_it_was_and_leads_to_nothing_new(place: Path) -> None:
    (place / ".github").mkdir()
    for name, target in ((".github/copilot-instructions.md", "../notes.txt"), ("AGENTS.md", "src/rules.txt")):
        (place / name).symlink_to(target)
    give(place)
    line = "echo evil > src/rules.txt; cd .github; rm copilot-instructions.md; echo evil > copilot-instructions.md"
    run(backend("bubblewrap"), policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert (place / ".github" / "copilot-instructions.md").readlink() == Path("../notes.txt")
    assert (place / "AGENTS.md").is_symlink()
    assert not (place / "AGENTS.md").exists()
    assert {*kept(place)} == {".github/copilot-instructions.md", "src/rules.txt"}


@requirement("sandbox.quarantine")
def test_a_directory_that_cannot_be_read_hides_nothing(sandbox: Sandbox, place: Path) -> None:
    (place / "src" / "old").mkdir(mode=0)
    give(place)
    line = "mkdir src/new; echo evil > src/new/AGENTS.md; chmod 0 src/new"
    run(sandbox, policy_for(place), "/bin/sh", "-c", line, cwd=place)
    assert (place / "src" / "old").is_dir()
    with suppress(FileNotFoundError):
        (place / "src" / "new").chmod(0o700)
    assert not (place / "src" / "new" / "AGENTS.md").exists()
    assert len(kept(place)) == 1


@requirement("sandbox.quarantine")
def test_names_are_gone_before_a_killed_or_late_command_is_reported(sandbox: Sandbox, place: Path) -> None:
    line = "echo evil > src/AGENTS.md; echo ready; exec sleep 600"
    command = Command(["/bin/sh", "-c", line], str(place), ENVIRONMENT, None, subprocess.PIPE)
    for how in ("kill", "time"):
        process = sandbox.start(policy_for(place)._replace(wall_s=None if how == "kill" else 1.0), command)
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == b"ready\n"
            if how == "kill":
                process.kill()
            assert process.wait(60) is not None
        assert files(place) == {"notes.txt", "src/app.py"}
        assert "src/AGENTS.md" in process.notes[0]


@requirement("sandbox.quarantine")
@pytest.mark.parametrize("also_supervisor", [False, True])
def test_who_comes_after_a_killed_onhand_moves_away_what_its_command_left(
    sandbox: Sandbox, place: Path, also_supervisor: bool
) -> None:
    script = (
        "import sys, time\nfrom onhand.sandbox.sandbox import Command, choose\n"
        f"from workplace import policy_for\nfrom pathlib import Path\npolicy = policy_for(Path({str(place)!r}))\n"
        "line = 'echo evil > src/AGENTS.md; mkdir src/.git; echo ready; exec sleep 600'\n"
        f"command = Command(['/bin/sh', '-c', line], {str(place)!r}, {{'PATH': '/usr/bin:/bin'}})\n"
        f"process = choose(policy, {sandbox.name!r}).start(policy, command)\nprint(process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as starter:
        assert starter.stdout is not None
        printed = {starter.stdout.readline().strip(), starter.stdout.readline().strip()} - {b"ready"}
        starter.kill()
        if also_supervisor:
            os.kill(int(printed.pop()), signal.SIGKILL)
    (note,) = finish_killed_commands(quarantine_of(place))
    assert "'src/.git', 'src/AGENTS.md'" in note
    assert files(place) == {"notes.txt", "src/app.py"}
    assert finish_killed_commands(quarantine_of(place)) == []
    assert os.listdir(Path(quarantine_of(place), "running")) == []


@requirement("sandbox.quarantine")
def test_what_was_there_before_and_what_is_not_protected_stays(watch: Watch, place: Path) -> None:
    (place / "src" / "plain.md").write_text("x")
    (place / ".onhand" / "notes").mkdir(parents=True)  # as a tool does meanwhile
    assert watch.finish() == []
    assert kept(place) == {}
    other = Watch(policy_for(place))
    (place / "AGENTS.md").write_text("mine")
    assert "'AGENTS.md'" in other.finish()[0]
    assert (place / ".onhand" / "notes").is_dir()


@requirement("sandbox.quarantine")
def test_a_name_that_a_running_command_made_is_new_to_the_next_one_too(watch: Watch, place: Path) -> None:
    (place / "AGENTS.md").write_text("evil")
    second = Watch(policy_for(place))
    watch.finish()
    (place / "AGENTS.md").write_text("evil again")
    second.finish()
    assert not (place / "AGENTS.md").exists()
    assert len(list_quarantine(quarantine_of(place))) == 2


@requirement("sandbox.quarantine")
def test_a_repository_stays_as_long_as_a_command_runs_that_may_need_it(watch: Watch, place: Path) -> None:
    elsewhere = Watch(policy_for(place / "src", quarantine=quarantine_of(place)))
    (place / "sub" / ".git").mkdir(parents=True)
    (place / "AGENTS.md").write_text("evil")
    move_names_of_running_commands()
    assert files(place) == {"notes.txt", "src/app.py"}
    second = Watch(policy_for(place))
    second.finish()
    assert (place / "sub" / ".git").is_dir()
    watch.finish()
    assert not (place / "sub" / ".git").exists()
    elsewhere.finish()


@requirement("sandbox.quarantine")
@pytest.mark.parametrize("names", [("objects", "refs", "config"), ("commondir",)])
def test_a_directory_that_became_a_bare_repository_is_none_afterwards(
    watch: Watch, place: Path, names: tuple[str, ...]
) -> None:
    for directory in (place, place / "src"):
        for name in (*names, "HEAD"):
            (directory / name).mkdir()
    move_names_of_running_commands()  # which leaves it alone: the command may be using it
    assert (place / "src" / "HEAD").exists()
    (note,) = watch.finish()
    assert "'HEAD', 'src/HEAD'" in note
    for directory in (place, place / "src"):
        assert not (directory / "HEAD").exists()
        assert all((directory / name).exists() for name in names)
    assert (place / "src" / "app.py").exists()


@requirement("sandbox.quarantine")
def test_a_bare_repository_that_existed_before_is_left_alone(place: Path) -> None:
    for name in ("HEAD", "objects", "refs"):
        (place / "src" / name).mkdir()
    watch = Watch(policy_for(place))
    (place / "src" / "HEAD").rmdir()
    (place / "src" / "HEAD").write_text("ref: refs/heads/other\n")
    assert watch.finish() == []


@requirement("sandbox.quarantine")
def test_a_directory_that_was_exchanged_for_a_link_is_not_followed(
    watch: Watch, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "AGENTS.md").write_text("precious")
    (place / "src" / "new").mkdir()
    (place / "src" / "new" / "AGENTS.md").write_text("evil")
    move_all = quarantine._move_all

    def exchanged(directory: str, paths: list[str], links: dict[str, str]) -> object:
        (place / "src" / "new").rename(place / "src" / "old")
        (place / "src" / "new").symlink_to(tmp_path)
        return move_all(directory, paths, links)

    with monkeypatch.context() as patch:
        patch.setattr(quarantine, "_move_all", exchanged)
        (note,) = watch.finish()
    assert "could not be moved to quarantine" in note
    assert (tmp_path / "AGENTS.md").read_text() == "precious"
    assert "'src/old/AGENTS.md'" in finish_killed_commands(quarantine_of(place))[0]  # the record was kept
    assert not (place / "src" / "old" / "AGENTS.md").exists()


@requirement("sandbox.quarantine")
def test_what_is_nearest_to_the_root_is_moved_though_there_are_too_many_files(
    watch: Watch, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        (place / "src" / f"{number}").mkdir()
    (place / "src" / "3" / "AGENTS.md").touch()
    (place / "AGENTS.md").touch()
    with monkeypatch.context() as patch:
        patch.setattr(layout, "MAX_ENTRIES", 10)
        assert watch.finish()[-1].startswith("not everything") or "not everything" in watch.finish()[0]
        assert not (place / "AGENTS.md").exists()
    Watch(policy_for(place)).finish()
    assert not (place / "src" / "3" / "AGENTS.md").exists()


@pytest.fixture
def other_disk(place: Path) -> str:
    """A quarantine on another file system than the project."""
    if not os.access("/dev/shm", os.W_OK) or os.stat("/dev/shm").st_dev == os.stat(place).st_dev:
        pytest.skip("there is no second file system")
    return f"/dev/shm/onhand-test-{os.getpid()}"


@requirement("sandbox.quarantine")
@pytest.mark.parametrize("most", [1000, 2])
def test_files_are_copied_to_another_disk_and_large_ones_are_renamed(
    place: Path, other_disk: str, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(quarantine, "MAX_COPIED_ENTRIES", most)
    watch = Watch(policy_for(place, quarantine=other_disk))
    try:
        (place / ".roo" / "inner").mkdir(parents=True)
        (place / ".roo" / "inner" / "AGENTS.md").write_text("evil")
        (place / ".roo" / "link").symlink_to("/etc/passwd")
        notes = watch.finish()
        (one,) = list_quarantine(other_disk)
        assert not (place / ".roo").exists()
        assert one.stored.startswith(other_disk if most > 2 else str(place / "quarantined-"))
        assert ("too large" in notes[-1]) is (most == 2)
        if most == 2:
            assert os.stat(one.stored).st_mode & 0o777 == 0
        restore_file(other_disk, one)
        assert (place / ".roo" / "inner" / "AGENTS.md").read_text() == "evil"
        assert (place / ".roo" / "link").readlink() == Path("/etc/passwd")
        assert list_quarantine(other_disk) == []
    finally:
        subprocess.run(["rm", "-rf", other_disk], check=True)


@requirement("sandbox.quarantine")
def test_without_space_for_it_a_file_is_renamed_where_it_is(
    watch: Watch, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "AGENTS.md").write_text("evil")
    mkdir = os.mkdir

    def full(path: str, mode: int = 0o777, **more: int) -> None:
        if str(path).startswith(quarantine_of(place)):
            raise OSError(28, "No space left on device")
        mkdir(path, mode, **more)

    monkeypatch.setattr(os, "mkdir", full)
    assert "quarantined-" in watch.finish()[1]
    assert not (place / "AGENTS.md").exists()
    assert [path.read_text() for path in place.glob("quarantined-*")] == ["evil"]


@requirement("sandbox.restore")
def test_what_was_moved_is_restored_by_its_path_or_its_id(watch: Watch, place: Path) -> None:
    (place / "src" / ".vscode").mkdir()
    (place / "AGENTS.md").write_text("fine after all")
    watch.finish()
    directory = quarantine_of(place)
    (one,) = choose_files(directory, str(place / "AGENTS.md"))
    assert {each.path for each in choose_files(directory, one.id)} == {one.path, str(place / "src" / ".vscode")}
    (place / "src" / "app.py").unlink()
    (place / "src").rmdir()
    for each in choose_files(directory, one.id):
        restore_file(directory, each)
    assert (place / "AGENTS.md").read_text() == "fine after all"
    assert (place / "src" / ".vscode").is_dir()
    assert list_quarantine(directory) == []
    with pytest.raises(NotFound, match="nothing in quarantine has the id or the path"):
        choose_files(directory, one.id)
    later = Watch(policy_for(place))  # it exists now
    assert later.finish() == []


@requirement("sandbox.restore")
def test_restoring_replaces_nothing_unasked_and_loses_nothing(watch: Watch, place: Path) -> None:
    (place / "AGENTS.md").write_text("theirs")
    watch.finish()
    (place / "AGENTS.md").write_text("mine")
    directory = quarantine_of(place)
    (one,) = list_quarantine(directory)
    with pytest.raises(InputError, match=r"AGENTS\.md exists: move it away, or replace it with --overwrite"):
        restore_file(directory, one)
    assert (place / "AGENTS.md").read_text() == "mine"
    restore_file(directory, one, overwrite=True)
    assert (place / "AGENTS.md").read_text() == "theirs"
    assert [Path(each.stored).read_text() for each in list_quarantine(directory)] == ["mine"]


@requirement("sandbox.restore")
def test_nothing_is_restored_through_a_link_or_while_a_command_could_change_it(
    watch: Watch, place: Path, tmp_path: Path
) -> None:
    (place / "src" / "AGENTS.md").write_text("evil")
    watch.finish()
    directory = quarantine_of(place)
    (one,) = list_quarantine(directory)
    running = Watch(policy_for(place))
    with pytest.raises(SandboxError, match="a command is running that could change"):
        restore_file(directory, one)
    running.finish()
    (place / "src").rename(place / "old")
    (place / "src").symlink_to(tmp_path)
    with pytest.raises(SandboxError, match=r"AGENTS\.md cannot be restored"):
        restore_file(directory, one)
    assert os.listdir(tmp_path) == []
    assert Path(one.stored).read_text() == "evil"


@requirement("sandbox.quarantine")
def test_a_quarantine_of_someone_else_is_refused_and_one_of_ours_is_closed(place: Path) -> None:
    directory = Path(quarantine_of(place))
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    Watch(policy_for(place)).finish()
    assert directory.stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        os.chown(directory, NOBODY, NOBODY)
        with pytest.raises(SandboxError, match="must be a directory that only you can access"):
            Watch(policy_for(place))


@requirement("sandbox.quarantine")
def test_where_nothing_can_be_recorded_nothing_is_started(sandbox: Sandbox, place: Path) -> None:
    Path(quarantine_of(place)).write_text("a file")
    with pytest.raises(SandboxError, match="new protected files of commands are moved there, so"):
        run(sandbox, policy_for(place), "true", cwd=place)


@requirement("sandbox.quarantine")
def test_a_disk_without_locks_is_refused_with_advice(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(descriptor: int) -> bool:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(quarantine, "try_lock", unsupported)
    with pytest.raises(SandboxError, match=r"cannot be locked \(No locks available\): set XDG_STATE_HOME to"):
        Watch(policy_for(place))


def test_a_quarantine_is_an_absolute_path() -> None:
    with pytest.raises(InputError, match="give an absolute path"):
        Policy(quarantine="relative").validate()
