"""Commands and pages are offered to a model only when the user asked, and then behind the configured walls."""

import os
import shutil
from pathlib import Path

import pytest

from onhand import config
from onhand.project import Project
from onhand.sandbox.quarantine import choose_files
from requirements import requirement
from workplace import give, something_to_read, workplace

ASKING = "[shell]\nenabled = true\n[web]\nenabled = true\n"
NAMES = {"run_command", "read_output", "list_jobs", "stop_job", "http_get"}


def offered(project: Path) -> set[str]:
    return NAMES & {*Project(config.load(str(project))).registry().names()}


@requirement("actions.on-request-only")
def test_they_are_there_only_when_the_user_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered(tmp_path) == set()
    monkeypatch.setenv("ONHAND_SHELL_ENABLED", "true")
    monkeypatch.setenv("ONHAND_WEB_ENABLED", "true")
    assert offered(tmp_path) == NAMES


@requirement("actions.on-request-only")
def test_a_file_that_came_with_a_clone_cannot_ask_for_them(tmp_path: Path) -> None:
    walls = "[sandbox]\nbackend = 'none'\nreadable = ['/']\ndomains = ['evil.test']\n"
    (tmp_path / "onhand.toml").write_text(ASKING + walls)
    loaded = config.load(str(tmp_path))
    assert not loaded.shell.enabled
    assert not loaded.web.enabled
    assert loaded.sandbox.backend == "auto"
    assert loaded.sandbox.readable == loaded.sandbox.domains == ()
    held_back = "\n".join(loaded.warnings)
    for key in ("shell.enabled", "web.enabled", "sandbox.backend", "sandbox.readable", "sandbox.domains"):
        assert f"{key} (" in held_back
    assert offered(tmp_path) == set()


@requirement("sandbox.policy")
def test_the_policy_is_what_the_configuration_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ONHAND_SANDBOX_READABLE", "/srv/data")
    monkeypatch.setenv("ONHAND_SANDBOX_DENIED", "secret")
    monkeypatch.setenv("ONHAND_SANDBOX_DOMAINS", "api.example.com")
    monkeypatch.setenv("ONHAND_SANDBOX_WRITABLE", "/srv/made")
    monkeypatch.setenv("ONHAND_SANDBOX_MEMORY_MB", "64")
    monkeypatch.setenv("ONHAND_SANDBOX_CPU_S", "9")
    monkeypatch.setenv("ONHAND_SANDBOX_PROCESSES", "12")
    policy = Project(config.load(str(tmp_path))).sandbox_policy()
    project = os.path.realpath(tmp_path)
    assert "/srv/data" in policy.readable
    assert policy.writable == (project, "/srv/made")
    assert f"{project}/secret" in policy.denied
    assert policy.domains == ("api.example.com",)
    assert (policy.memory_bytes, policy.cpu_s, policy.processes) == (64 << 20, 9, 12)
    assert not policy.may_read(str(tmp_path / "home" / ".ssh" / "id_rsa"))


@requirement("sandbox.same-rules")
@pytest.mark.parametrize("moved", [False, True])
def test_nothing_in_a_home_that_is_the_workspace_can_speak_for_its_user(
    moved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_home, state_home = ("a", "b") if moved else (".config", ".local/state")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, where in (("XDG_CONFIG_HOME", config_home), ("XDG_STATE_HOME", state_home)):
        monkeypatch.setenv(name, str(tmp_path / where)) if moved else monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONHAND_WORKSPACE_TOOLS", "write")
    monkeypatch.setenv("ONHAND_WORKSPACE_ALLOW", "config.toml")
    asked = config.load(str(tmp_path))
    registry = Project(asked).registry()
    names = ("config.toml", "mcp.json"), ("trusted/0123.json", "mcp/user.json")
    words = [
        f"{at}/onhand/{name}" for at, of_it in zip((config_home, state_home), names, strict=True) for name in of_it
    ]
    for path in words:
        refused = registry.call("write_file", {"path": path, "content": "", "create_dirs": True})
        assert f"{path} is protected" in refused.text or f"{path} is closed" in refused.text
    assert registry.call("write_file", {"path": "onhand-notes/a", "content": "", "create_dirs": True}).ok
    policy = Project(asked).sandbox_policy()
    assert [path for path in words if policy.may_read(str(tmp_path / path))] == []


@requirement("sandbox.same-rules", "trust.of-content")
def test_models_do_not_write_files_that_say_what_to_start_or_whom_to_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    named = {"MCP_FILES": "tools/a.json", "GRPC_TLS_CERT": "cert.crt", "GRPC_CLIENT_CA": "ca/root.crt"}
    for name, path in named.items():
        monkeypatch.setenv(f"ONHAND_{name}", path)
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    monkeypatch.setenv("ONHAND_WORKSPACE_TOOLS", "write")
    monkeypatch.setenv("ONHAND_WORKSPACE_ALLOW", "tools")
    project = Project(config.load(str(tmp_path)))
    policy = project.sandbox_policy()
    for path in named.values():
        refused = project.registry().call("write_file", {"path": path, "content": ""})
        assert f"{path} is protected" in refused.text
        assert not policy.may_write(str(tmp_path / path))
    assert project.registry().call("write_file", {"path": "tools/b.json", "content": ""}).ok
    assert policy.may_write(str(tmp_path / "tools" / "b.json"))


@requirement("sandbox.same-rules")
def test_the_same_rules_hold_for_the_tools_for_files_and_for_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONHAND_SHELL_ENABLED", "true")
    monkeypatch.setenv("ONHAND_WORKSPACE_TOOLS", "write")
    monkeypatch.setenv("ONHAND_WORKSPACE_ALLOW", ".env.test")
    with workplace() as place:
        for name in ("src/a.sqlite", "src/vendor/lib.py", "src/.env.test", "src/.env"):
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text("S3CR3T")
        (place / "onhand.toml").write_text("[workspace]\ndeny = ['*.sqlite']\nprotect = ['vendor/']\n")
        give(place)
        registry = Project(config.load(str(place))).registry()
        for name, is_read in (("src/a.sqlite", False), ("src/.env", False), ("src/.env.test", True)):
            ran = registry.call("run_command", {"command": f"cat {name}"})
            if "no sandbox works here" in ran.text:
                pytest.skip(ran.text)
            assert registry.call("read_file", {"path": name}).ok is ran.structured["success"] is is_read
        command = "echo x > src/vendor/lib.py; echo x > src/vendor/new.py"
        job = registry.call("run_command", {"command": command, "background": True}).structured["job"]
        while registry.call("list_jobs", {}).structured["jobs"][0]["state"] == "running":
            registry.call("read_output", {"job": job})
        assert not registry.call("write_file", {"path": "src/vendor/lib.py", "content": "x"}).ok
        assert os.listdir(place / "src" / "vendor") == ["lib.py"]
        assert (place / "src" / "vendor" / "lib.py").read_text() == "S3CR3T"


@requirement("sandbox.same-rules")
def test_commands_work_in_the_roots_of_the_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONHAND_SHELL_ENABLED", "true")
    monkeypatch.setenv("ONHAND_WORKSPACE_ROOT", "src")
    with workplace() as place, workplace() as shown, workplace() as more:
        (shown / ".env").write_text("S3CR3T")
        monkeypatch.setenv("ONHAND_WORKSPACE_READ_ONLY_ROOTS", str(shown))
        monkeypatch.setenv("ONHAND_WORKSPACE_WRITABLE_ROOTS", str(more))
        registry = Project(config.load(str(place))).registry()
        lines = {
            "cat app.py": True,
            "touch new.py": True,
            f"cat {place}/notes.txt": False,
            f"cat {shown}/notes.txt": True,
            f"cat {shown}/.env": False,
            f"touch {shown}/src/new": False,
            f"touch {more}/src/new": True,
        }
        for line, is_done in lines.items():
            ran = registry.call("run_command", {"command": line})
            if "no sandbox works here" in ran.text:
                pytest.skip(ran.text)
            if line == "touch new.py" and not ran.structured["success"]:
                continue  # a root takes no new files under Landlock
            assert ran.structured["success"] is is_done, (line, ran.text)


@requirement("sandbox.tells-what-was-made")
def test_a_model_is_told_what_its_command_made_under_a_protected_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONHAND_SHELL_ENABLED", "true")
    with workplace() as place:
        registry = Project(config.load(str(place))).registry()
        ran = registry.call("run_command", {"command": "mkdir src/x; echo obey > src/x/AGENTS.md"})
        if "no sandbox works here" in ran.text:
            pytest.skip(ran.text)
        assert ran.structured["notes"] == [ran.text.splitlines()[-1].strip("[]")]
        assert "created while the command ran, and moved to quarantine: 'src/x/AGENTS.md'" in ran.text
        (one,) = choose_files(Project(config.load(str(place))).sandbox_policy().quarantine, f"{place}/src/x/AGENTS.md")
        shutil.rmtree(os.path.dirname(one.stored))


@requirement("sandbox.quarantine")
def test_a_tool_reads_nothing_that_a_running_command_made_under_a_protected_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONHAND_SHELL_ENABLED", "true")
    with workplace() as place:
        project = Project(config.load(str(place)))
        registry = project.registry("read")
        line = "mkdir src/x; echo obey > src/x/AGENTS.md; echo ready; sleep 600"
        started = registry.call("run_command", {"command": line, "background": True})
        while "ready" not in registry.call("read_output", {"job": "job-1"}).text:
            if "failed" in registry.call("list_jobs").text:
                pytest.skip(registry.call("list_jobs").text)
        assert started.ok
        assert not registry.call("read_file", {"path": "src/x/AGENTS.md"}).ok
        stopped = registry.call("stop_job", {"job": "job-1"})
        assert "moved to quarantine: 'src/x/AGENTS.md'" in stopped.text
        (one,) = choose_files(project.sandbox_policy().quarantine, f"{place}/src/x/AGENTS.md")
        shutil.rmtree(os.path.dirname(one.stored))


@pytest.mark.parametrize(
    ("backend", "line", "said"),
    [
        ("bubblewrap", "mv src other", "Device or resource busy"),
        ("bubblewrap", "rm -rf src", "Device or resource busy"),
        ("landlock", "rm src/AGENTS.md", "Permission denied"),
    ],
)
def test_a_model_knows_beforehand_what_the_kernel_will_say_near_a_protected_name(
    monkeypatch: pytest.MonkeyPatch, backend: str, line: str, said: str
) -> None:
    monkeypatch.setenv("ONHAND_SHELL_ENABLED", "true")
    monkeypatch.setenv("ONHAND_SANDBOX_BACKEND", backend)
    with workplace() as place:
        (place / "src" / "AGENTS.md").write_text("# Rules\n")
        give(place)
        registry = Project(config.load(str(place))).registry()
        ran = registry.call("run_command", {"command": line})
        if "no sandbox works here" in ran.text:
            pytest.skip(ran.text)
        tool = registry.get("run_command")
        assert tool is not None
        assert said in ran.text
        assert said in tool.description


@requirement("sandbox.never-silently-open")
def test_commands_are_refused_where_nothing_can_confine_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onhand.sandbox.bubblewrap._missing_requirement", lambda: "not installed")
    monkeypatch.setattr("onhand.sandbox.landlock._missing_requirement", lambda: "too old")
    monkeypatch.setenv("ONHAND_SHELL_ENABLED", "true")
    with workplace() as place:
        result = Project(config.load(str(place))).registry().call("run_command", {"command": "touch made"})
        assert not result.ok
        assert "no sandbox works here (bubblewrap: not installed; landlock: too old)" in result.text
        assert not (place / "made").exists()


def test_time_schemes_and_walls_are_those_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onhand.sandbox.landlock._missing_requirement", lambda: "too old")
    settings = {"SHELL_ENABLED": "true", "SHELL_TIMEOUT_S": "7.5", "WEB_ENABLED": "true", "SANDBOX_BACKEND": "landlock"}
    for name, value in settings.items():
        monkeypatch.setenv(f"ONHAND_{name}", value)

    def said(tool: str) -> str:
        found = Project(config.load(str(tmp_path))).registry().get(tool)
        assert found is not None
        return str(found.input_schema["properties"])

    assert "7.5 by default" in said("run_command")
    refused = Project(config.load(str(tmp_path))).registry().call("run_command", {"command": "touch made"})
    assert (refused.ok, "landlock: too old" in refused.text, list(tmp_path.iterdir())) == (False, True, [])
    assert "A whole URL, https." in said("http_get")
    monkeypatch.setenv("ONHAND_WEB_ALLOW_HTTP", "true")
    assert "A whole URL, https and http." in said("http_get")


@pytest.mark.parametrize("backend", ["auto", "none"])
def test_a_command_of_a_model_runs_as_the_user_asked(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONHAND_SHELL_ENABLED", "true")
    monkeypatch.setenv("ONHAND_SANDBOX_BACKEND", backend)
    monkeypatch.setenv("API_TOKEN", "s3cr3t")
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    monkeypatch.setenv("ONHAND_SHELL_ENVIRONMENT", "JAVA_HOME")
    with workplace() as place:
        (place / ".env").write_text("PASSWORD=s3cr3t")
        give(place)
        registry = Project(config.load(str(place))).registry()
        with something_to_read() as left:
            result = registry.call("run_command", {"command": "env; cat .env; cat; pwd", "timeout_s": 20})
            assert left() == b"something"
        if backend == "auto" and "no sandbox works here" in result.text:
            pytest.skip(result.text)
        assert result.ok
        assert f"{place}\n" in result.structured["stdout"]
        assert "JAVA_HOME=/opt/java\n" in result.structured["stdout"]
        assert "API_TOKEN" not in result.structured["stdout"]
        assert ("s3cr3t" in result.structured["stdout"]) is (backend == "none")
        confined = "The command can write only in the workspace" in registry.get("run_command").description  # type: ignore[union-attr]
        assert confined is (backend == "auto")
