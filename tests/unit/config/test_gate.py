"""What may a configuration do that arrived with a clone?"""

from pathlib import Path

import pytest

from onhand import config
from onhand.config.files import trust_store
from onhand.config.settings import declare, setting
from onhand.record import Record
from requirements import requirement

from .conftest import World


class Server(Record):
    """A section that starts a program with a secret."""

    command: tuple[str, ...] = setting((), "What is started.", "program")
    token_env: str = setting("SERVER_TOKEN", "The variable that has its token.", "secret")


SERVER = declare("server", Server)


def resolve(world: World, **variables: str) -> config.Resolved:
    return config.resolve(SERVER, str(world.project), environ={**world.environ, **variables})


@requirement("trust.programs-are-held-back")
def test_a_project_file_starts_no_program_and_uses_no_secret_until_it_is_trusted(world: World) -> None:
    path = world.say("[server]\ncommand = ['sh', '-c', 'evil']\ntoken_env = 'AWS_SECRET_ACCESS_KEY'\n")
    held = resolve(world)
    assert held.values == {"server.command": (), "server.token_env": "SERVER_TOKEN"}
    assert held.sources["server.command"] == "default"
    advice = f"to allow it, run: onhand trust {world.project}"
    command, token = "'sh', '-c', 'evil'", "'AWS_SECRET_ACCESS_KEY'"
    assert held.warnings == (
        f"{path}:2: server.command ({command}) is ignored because it starts a program; {advice}",
        f"{path}:3: server.token_env ({token}) is ignored because it uses a secret of yours; {advice}",
    )
    world.trust(settings=SERVER)
    allowed = resolve(world)
    assert allowed.values["server.command"] == ("sh", "-c", "evil")
    assert allowed.values["server.token_env"] == "AWS_SECRET_ACCESS_KEY"
    assert allowed.warnings == ()
    assert allowed.requests == held.requests


@requirement("trust.own-words-need-none")
def test_the_users_own_words_need_no_trust(world: World) -> None:
    world.say_as_user("[server]\ncommand = ['mine']\n")
    said = resolve(world, ONHAND_SERVER_TOKEN_ENV="MY_TOKEN")
    assert said.values == {"server.command": ("mine",), "server.token_env": "MY_TOKEN"}
    assert said.warnings == ()


def test_what_is_held_back_leaves_the_users_own_value_in_place(world: World) -> None:
    world.say_as_user("[server]\ncommand = ['mine']\n")
    world.say("[server]\ncommand = ['theirs']\n")
    assert resolve(world).values["server.command"] == ("mine",)


STRICT = """
[agent]
deny = ["write_file"]
allow = ["plan_*"]
workspace_tools = "read"
base_url = "http://localhost:1/v1"
max_turns = 5
max_tokens = 10_000
[shell]
timeout_s = 5
[workspace]
deny = ["*.sqlite"]
[sandbox]
denied = ["~/private", "inner"]
memory_mb = 512
cpu_s = 60
processes = 32
[mcp]
trust = "ask"
[grpc]
token_env = "MY_TOKEN"
"""


@requirement("trust.limits-are-kept", "trust.programs-are-held-back", "trust.own-words-need-none")
def test_a_clone_cannot_take_back_what_the_users_own_file_forbids(world: World) -> None:
    world.say_as_user(STRICT)
    strict = config.load(str(world.project), environ=world.environ)
    world.say(
        '[agent]\ndeny = []\nallow = ["write_note", "plan_*", "delegate"]\nworkspace_tools = "write"\nbase_url = ""\n'
        "max_turns = 1000\nmax_tokens = 0\n[shell]\ntimeout_s = 600\n"
        '[workspace]\ndeny = ["*.log"]\n[mcp]\ntrust = "auto"\n'
        '[grpc]\ntoken_env = ""\nwrites = true\nmetrics = "0.0.0.0:9464"\n'
        "[sandbox]\ndenied = []\nmemory_mb = 99999\ncpu_s = 61\nprocesses = 1000\n"
    )
    held = config.load(str(world.project), environ=world.environ)
    assert (held.agent, held.mcp, held.grpc, held.sandbox) == (strict.agent, strict.mcp, strict.grpc, strict.sandbox)
    assert held.sandbox.denied == (str(world.home / "private"), "inner")
    assert held.workspace.deny == ("*.sqlite", "*.log")  # what it forbids itself counts
    assert held.shell == strict.shell
    assert len(held.warnings) == 16
    world.trust()
    trusting = config.load(str(world.project), environ=world.environ)
    assert (trusting.agent.deny, trusting.sandbox.denied, trusting.sandbox.memory_mb) == ((), (), 99999)


@requirement("trust.limits-are-kept")
def test_a_clone_may_forbid_more(world: World) -> None:
    world.say_as_user(STRICT)
    world.say(
        '[agent]\ndeny = ["write_file", "run_command"]\nallow = []\nworkspace_tools = "none"\n'
        "max_turns = 4\nmax_tokens = 9_000\n[shell]\ntimeout_s = 4\n"
        '[workspace]\ndeny = ["*.log", "*.sqlite"]\n'
        '[sandbox]\ndenied = ["~/private", "inner", "../other", "data"]\nmemory_mb = 256\nprocesses = 32\n'
    )
    asked = config.load(str(world.project), environ=world.environ)
    assert asked.agent.deny == ("write_file", "run_command")
    assert (asked.agent.allow, asked.agent.workspace_tools) == ((), "none")
    assert asked.workspace.deny == ("*.log", "*.sqlite")
    outside = (str(world.home / "private"), str(world.project.parent / "other"))
    assert asked.sandbox.denied == (outside[0], "inner", outside[1], "data")
    assert (asked.sandbox.memory_mb, asked.sandbox.cpu_s) == (256, 60)
    assert (asked.agent.max_turns, asked.agent.max_tokens, asked.shell.timeout_s) == (4, 9_000, 4)
    assert asked.warnings == ()


@requirement("trust.limits-are-kept")
@pytest.mark.parametrize("path", ["deploy", ".", "keys/prod.key", "../other"])
def test_a_clone_cannot_open_to_commands_what_looks_secret(world: World, path: str) -> None:
    world.say(f'[sandbox]\nreadable = ["{path}"]\n')
    assert world.load().sandbox.readable == ()
    assert "opens paths that are closed to commands" in world.load().warnings[0]
    world.trust()
    assert len(world.load().sandbox.readable) == 1


@requirement("trust.limits-are-kept")
def test_what_a_clone_closes_is_closed_beside_what_the_user_closes(world: World) -> None:
    world.say_as_user('[sandbox]\ndenied = ["~/private"]\n')
    world.say('[sandbox]\ndenied = ["data"]\n')
    assert world.load().sandbox.denied == (str(world.home / "private"), "data")
    (warning,) = world.load().warnings
    assert "sandbox.denied ('~/private') is ignored because it allows something that you forbid" in warning
    assert world.load(ONHAND_SANDBOX_DENIED="other").sandbox.denied == ("other",)


@requirement("trust.limits-are-kept")
def test_a_clone_makes_nobody_listen_and_no_server_take_more(world: World) -> None:
    world.say_as_user("[agent]\nmax_output_tokens = 2000\n")
    world.say(
        "[agent]\ntelemetry = true\nmax_output_tokens = 100000\n"
        "[grpc]\nlog_queries = true\nmax_in_flight = 100000\nmax_message_bytes = 2000000000\n"
    )
    asked = world.load()
    assert (asked.agent.telemetry, asked.grpc.log_queries) == (False, False)
    assert (asked.agent.max_output_tokens, asked.grpc.max_in_flight) == (2000, 64)
    assert asked.grpc.max_message_bytes == 4_194_304
    assert sum("tells others what you do or search for" in warning for warning in asked.warnings) == 2
    world.say("[agent]\ntelemetry = false\nmax_output_tokens = 1000\n[grpc]\nlog_queries = false\nmax_in_flight = 8\n")
    asked = world.load()
    assert (asked.agent.max_output_tokens, asked.grpc.max_in_flight, asked.warnings) == (1000, 8, ())


@requirement("trust.limits-are-kept")
def test_a_clone_does_not_decide_who_may_connect(world: World) -> None:
    world.say("[grpc]\nclient_ca = 'theirs.pem'\n")
    asked = world.load()
    assert (asked.grpc.client_ca, len(asked.warnings)) == ("", 1)
    ours = "client_ca = '/etc/ca.pem'\ntls_cert = '/etc/cert.pem'\ntls_key = '/etc/key.pem'\n"
    world.say_as_user(f"[grpc]\n{ours}")
    for theirs in ("client_ca = ''\ntls_cert = ''\ntls_key = ''\n", ours.replace("/etc/", "")):
        world.say(f"[grpc]\n{theirs}")
        asked = world.load()
        assert (asked.grpc.client_ca, asked.grpc.tls_cert) == ("/etc/ca.pem", "/etc/cert.pem")
        assert sum("decides who may connect" in warning for warning in asked.warnings) == 3
    world.trust()
    assert world.load().grpc.client_ca == "ca.pem"
    world.say(f"[grpc]\n{ours}")
    world.trust()
    assert world.load().warnings == ()


def test_what_the_environment_overrides_is_not_worth_a_warning(world: World) -> None:
    world.say("[server]\ncommand = ['theirs']\n")
    assert resolve(world, ONHAND_SERVER_COMMAND="mine").warnings == ()


@requirement("trust.paths-are-held-back")
@pytest.mark.parametrize("path", ["../shared", "/etc", "~/notes", "docs/../../x", "link", "link/deeper"])
def test_a_path_out_of_the_project_is_held_back(world: World, tmp_path: Path, path: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (world.project / "link").symlink_to(outside)
    world.say(f"[context]\nroot = '{path}'\nextra_roots = ['docs', '{path}']\n")
    held = world.load()
    assert held.context.root == ".AGENTS"
    assert held.context.extra_roots == ("docs",)
    assert len(held.warnings) == 2
    assert all(repr(path) in warning and "onhand trust" in warning for warning in held.warnings)
    world.trust()
    allowed = world.load()
    expected = Path(path.replace("~", str(world.home)))
    assert allowed.context.root == str((world.project / expected).resolve())
    assert allowed.context.extra_roots == ("docs", allowed.context.root)
    assert allowed.warnings == ()


def test_a_warning_stays_short_whatever_is_held_back(world: World) -> None:
    world.say(f"[context]\nextra_roots = {[f'/outside{number}' for number in range(1000)]}\n")
    (warning,) = world.load().warnings
    assert len(warning) < 600


def test_a_link_inside_the_project_needs_no_trust(world: World) -> None:
    (world.project / "documents").mkdir()
    (world.project / "docs").symlink_to("documents")
    world.say("[context]\nroot = 'docs'\n")
    assert world.load().context.root == "docs"
    assert world.load().warnings == ()


def test_a_default_directory_that_is_a_link_out_of_the_project_is_warned_about(world: World, tmp_path: Path) -> None:
    outside = (tmp_path / "outside").resolve()
    outside.mkdir()
    (world.project / ".AGENTS").symlink_to(outside)
    held = world.load()
    assert held.context.root == ".AGENTS"
    assert "context.root ('.AGENTS') is ignored because it leads out of" in held.warnings[0]
    world.trust()
    assert world.load().context.root == str(outside)
    assert world.load().warnings == ()


@requirement("trust.for-one-directory")
def test_trust_holds_for_one_directory_alone(world: World) -> None:
    inner, beside = world.project / "inner", world.project.parent / "project2"
    for directory in (world.project, inner, beside):
        directory.mkdir(exist_ok=True)
        (directory / "onhand.toml").write_text("[server]\ncommand = ['x']\n")
    world.trust(settings=SERVER)

    def command(directory: Path) -> object:
        return config.resolve(SERVER, str(directory), environ=world.environ).values["server.command"]

    below = world.project / "src"
    below.mkdir()
    assert command(world.project) == command(below) == ("x",)
    assert command(inner) == command(beside) == ()
    world.trust(inner, SERVER)
    assert command(inner) == ("x",)
    assert command(beside) == ()


def test_a_trusted_directory_is_trusted_by_whatever_name_it_is_reached(world: World) -> None:
    world.say("[server]\ncommand = ['x']\n")
    other_name = world.home / "shortcut"
    other_name.symlink_to(world.project)
    world.trust(other_name, SERVER)
    assert resolve(world).values["server.command"] == ("x",)


@requirement("trust.corrupt-store-trusts-nothing")
@pytest.mark.parametrize("text", ["{", "[]", '{"directory": "/"}', '{"directory": [1]}', "[" * 100_000, "\x00\xff"])
def test_a_corrupt_record_is_reported_and_trusts_nothing(world: World, text: str) -> None:
    world.say("[server]\ncommand = ['x']\n")
    world.trust(settings=SERVER)
    (record,) = Path(trust_store(world.environ)).iterdir()
    record.write_bytes(text.encode("latin-1"))
    held = resolve(world)
    assert held.values["server.command"] == ()
    assert str(record) in held.warnings[0]
    assert f"until then, {world.project} is not trusted" in held.warnings[0]
