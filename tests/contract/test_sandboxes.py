"""Every sandbox keeps a policy in the same way: the twin, bubblewrap and Landlock."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onhand.errors import InputError, SandboxError
from onhand.path_rules import PathRules
from onhand.sandbox.policy import Policy
from onhand.sandbox.sandbox import Command, MemorySandbox, RefusingSandbox, Sandbox
from requirements import requirement
from workplace import backend, give, quarantine_of, run, workplace

SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc")
READ_OR_NOT = {
    "src/deep/a.sqlite": False,
    "src/Private/b.txt": False,
    "vendor/c.py": True,
    "src/vendor/d.py": True,
    "src/demo.sqlite": True,
}


class World:
    """A sandbox, and a directory with files that it sees."""

    def __init__(self, sandbox: Sandbox, directory: Path) -> None:
        self.sandbox = sandbox
        self.directory = directory

    def write(self, name: str, content: str = "content\n") -> str:
        path = self.directory / name
        if isinstance(self.sandbox, MemorySandbox):
            self.sandbox.files[str(path)] = content.encode()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            give(self.directory)
        return str(path)

    def policy(self, **parts: object) -> Policy:
        usual = {"readable": SYSTEM, "writable": (str(self.directory),)}
        return Policy(**{**usual, **parts})  # type: ignore[arg-type]  # the test says what fits

    def has(self, path: str) -> bool:
        return path in self.sandbox.files if isinstance(self.sandbox, MemorySandbox) else os.path.lexists(path)

    def does(self, policy: Policy, *argv: str) -> bool:
        return run(self.sandbox, policy, *argv, cwd=self.directory).code == 0


@pytest.fixture(params=["memory", "bubblewrap", "landlock"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with workplace() as directory:
        yield World(MemorySandbox() if request.param == "memory" else backend(request.param), directory)


def test_a_command_gives_its_exit_code_and_what_it_printed(world: World) -> None:
    path = world.write("a.txt", "first\n")
    ended = run(world.sandbox, world.policy(), "cat", path, cwd=world.directory)
    assert (ended.code, ended.printed) == (0, "first\n")
    assert not world.does(world.policy(), "false")


@requirement("sandbox.policy")
def test_what_is_neither_readable_nor_writable_cannot_be_read(world: World) -> None:
    inside, outside = world.write("inside/a.txt"), world.write("outside/b.txt")
    policy = world.policy(writable=(str(world.directory / "inside"),))
    assert world.does(policy, "cat", inside)
    assert not world.does(policy, "cat", outside)


@requirement("sandbox.policy")
def test_what_is_only_readable_cannot_be_written(world: World) -> None:
    world.write("shown/a.txt")
    world.write("work/b.txt")
    policy = world.policy(readable=(*SYSTEM, str(world.directory / "shown")), writable=(str(world.directory / "work"),))
    assert world.does(policy, "touch", str(world.directory / "work" / "new.txt"))
    assert not world.does(policy, "touch", str(world.directory / "shown" / "new.txt"))
    assert world.does(policy, "cat", str(world.directory / "shown" / "a.txt"))


def test_naming_as_readable_what_is_writable_takes_nothing_away(world: World) -> None:
    world.write("src/a.py")
    policy = world.policy(readable=(*SYSTEM, str(world.directory / "src")))
    assert world.does(policy, "touch", str(world.directory / "src" / "b.py"))


@requirement("sandbox.secrets-unreadable")
def test_what_is_denied_cannot_be_read_though_all_around_it_can(world: World) -> None:
    secret, plain = world.write("secrets/key", "s3cr3t"), world.write("src/a.py")
    policy = world.policy(denied=(str(world.directory / "secrets"),))
    ended = run(world.sandbox, policy, "cat", secret, cwd=world.directory)
    assert ended.code != 0
    assert "s3cr3t" not in ended.printed
    assert world.does(policy, "cat", plain)


@requirement("sandbox.secrets-unreadable")
def test_what_is_protected_or_denied_is_not_there_after_a_command_made_it(world: World) -> None:
    world.write("src/a.py")
    hooks, settings, env = (f"{world.directory}/{name}" for name in (".git/hooks", ".mcp.json", ".env"))
    policy = world.policy(protected=(hooks, settings), denied=(env,), quarantine=quarantine_of(world.directory))
    for path in (f"{hooks}/x", settings, env):
        world.does(policy, "touch", path)
        assert not world.has(path)
    assert world.does(policy, "touch", str(world.directory / "src" / "b.py"))


@requirement("sandbox.same-rules")
def test_patterns_close_what_they_match_at_any_depth_unless_it_is_allowed(world: World) -> None:
    closed = PathRules(("*.sqlite", "private/"), ("/vendor",), ("demo.sqlite",))
    for name in ("src/deep/a.sqlite", "src/Private/b.txt", "vendor/c.py", "src/vendor/d.py", "src/demo.sqlite"):
        world.write(name)
    policy = world.policy(closed=closed)
    reads = {name: world.does(policy, "cat", str(world.directory / name)) for name in READ_OR_NOT}
    assert reads == READ_OR_NOT
    assert not world.does(policy, "touch", str(world.directory / "vendor" / "new.py"))
    assert world.does(policy, "touch", str(world.directory / "src" / "vendor" / "new.py"))


@requirement("sandbox.same-rules")
def test_a_read_only_directory_in_a_writable_one_is_read_and_not_written(world: World) -> None:
    world.write("src/lib/a.py")
    world.write("src/own/a.py")
    policy = world.policy(read_only=(str(world.directory / "src" / "lib"),))
    assert world.does(policy, "cat", str(world.directory / "src" / "lib" / "a.py"))
    assert not world.does(policy, "touch", str(world.directory / "src" / "lib" / "b.py"))
    assert world.does(policy, "touch", str(world.directory / "src" / "own" / "b.py"))


@requirement("sandbox.same-rules")
def test_a_writable_directory_in_a_read_only_one_is_written(world: World) -> None:
    world.write("all/a.py")
    world.write("all/mine/b.py")
    directory = world.directory / "all"
    policy = world.policy(writable=(str(directory / "mine"),), read_only=(str(directory),))
    assert world.does(policy, "cat", str(directory / "a.py"))
    assert not world.does(policy, "touch", str(directory / "c.py"))
    assert world.does(policy, "touch", str(directory / "mine" / "c.py"))


@requirement("sandbox.policy")
def test_a_command_ends_when_its_time_is_over(world: World) -> None:
    assert run(world.sandbox, world.policy(wall_s=0.2), "sleep", "60", cwd=world.directory).code == 124


def test_a_command_that_is_killed_has_ended(world: World) -> None:
    process = world.sandbox.start(
        world.policy(), Command(["sleep", "60"], str(world.directory), {"PATH": "/usr/bin:/bin"})
    )
    assert process.poll() is None
    process.kill()
    assert process.poll() not in (None, 0)
    process.kill()  # a second time does nothing


def test_a_policy_that_cannot_be_meant_is_refused_before_anything_starts(world: World) -> None:
    for wrong in (
        Policy(readable=("relative",)),
        Policy(writable=("/a/../b",)),
        Policy(domains=("exam\0ple.com",)),
        Policy(memory_bytes=1),
        Policy(wall_s=0),
    ):
        with pytest.raises(InputError):
            world.sandbox.start(wrong, Command(["true"], "/", {}))


@requirement("sandbox.never-silently-open")
def test_a_machine_without_a_sandbox_starts_nothing_and_says_why() -> None:
    sandbox = RefusingSandbox("this kernel has none")
    with pytest.raises(SandboxError, match="nothing was started: this kernel has none"):
        sandbox.start(Policy(), Command(["true"], "/", {}))
    assert sandbox.refusal(Policy()) == "this kernel has none"
