"""Does the project keep together: its package, its layers, its commands, its gate?"""

import ast
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import BY_ITSELF, LONG, TABLES, run_benchmark

import onhand
from onhand.errors import MissingExtra
from requirements import requirement

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]
GATE = ["test", "check", "peers", "conformance", "clients", "bundles"]
NEEDS_A_SHELL = pytest.mark.skipif(os.name == "nt", reason="make and .ci/run need a POSIX shell")


def run(*command: str | Path, cwd: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command as from a fresh terminal: nothing of a make around the tests."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "utf-8", **environ},
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )


def python(code: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-c", code)


@requirement("project.typed")
def test_every_public_name_is_importable_typed_and_listed() -> None:
    found = {name: getattr(onhand, name) for name in onhand._MODULE_OF}
    assert all(getattr(value, "__name__", "") == name for name, value in found.items())
    assert set(onhand._MODULE_OF) <= set(dir(onhand))

    tree = ast.parse((SOURCE / "onhand" / "__init__.py").read_text(encoding="utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imported = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    names = [(node.module, alias.name) for node in imported for alias in node.names if alias.name != "*"]
    assert sorted(names) == sorted((home, name) for name, home in onhand._MODULE_OF.items() if home != "onhand.errors")


@requirement("project.typed")
def test_the_errors_of_the_tree_are_all_public() -> None:
    from onhand import errors

    raised = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert raised == {name for name, home in onhand._MODULE_OF.items() if home == "onhand.errors"}


@requirement("project.typed")
def test_the_package_says_that_it_is_typed() -> None:
    assert (SOURCE / "onhand" / "py.typed").is_file()
    assert "Typing :: Typed" in PYPROJECT["project"]["classifiers"]


def test_a_name_that_is_not_public_is_refused_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="'onhand' has no attribute 'Contxt'"):
        onhand.Contxt  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_imports_nothing_else() -> None:
    done = python("import sys; before = set(sys.modules); import onhand; print(*set(sys.modules) - before)")
    assert done.stdout.split() == ["onhand"]


@requirement("project.base-install-is-light")
def test_the_base_install_needs_two_packages() -> None:
    names = [re.split(r"[<>=~! ]", requirement)[0] for requirement in PYPROJECT["project"]["dependencies"]]
    assert sorted(names) == ["jsonschema-rs", "pyyaml"]
    always = [need for need in distribution("onhand").requires or [] if "extra ==" not in need]
    assert len(always) == 2


@requirement("project.base-install-is-light")
def test_the_demo_and_the_commands_run_where_nothing_but_the_base_is_installed() -> None:
    done = python("""if True:
        import runpy, sys
        base = {*sys.stdlib_module_names, "onhand", "yaml", "_yaml", "jsonschema_rs", "sitecustomize", "usercustomize"}

        class OnlyTheBase:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] not in base:
                    raise ModuleNotFoundError(f"not in the base install: {name}", name=name)

        sys.meta_path.insert(0, OnlyTheBase())
        from onhand.cli.main import NOUNS, main
        assert main(["context", "search", "--root", "examples/sample-project", "roll", "back"]) == 0
        assert main(["doctor"]) == 0
        runpy.run_path("examples/demo.py", run_name="__main__")
    """)
    assert done.stderr == ""
    assert done.returncode == 0
    assert "note: only words were compared: " in done.stdout
    assert "\n   lexical " in done.stdout  # so does the cache
    assert "saved: " in done.stdout


@requirement("project.extras-exist")
def test_the_extras_are_there_and_all_is_their_union() -> None:
    single = set(EXTRAS) - {"all"}
    assert single == {"semantic", "gguf", "mcp", "grpc", "acp", "console", "actions", "telemetry"}
    (union,) = EXTRAS["all"]
    assert set(union.removeprefix("onhand[").removesuffix("]").split(",")) == single
    assert set(distribution("onhand").metadata.get_all("Provides-Extra") or []) == set(EXTRAS)


@requirement("project.missing-extra-names-its-command")
@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_a_feature_without_its_extra_says_which_command_installs_it(extra: str) -> None:
    error = MissingExtra("this feature", extra)
    assert str(error) == f"this feature needs the '{extra}' extra: pip install 'onhand[{extra}]'"
    assert isinstance(error, onhand.OnhandError)


@requirement("project.missing-extra-names-its-command", "cli.doctor")
def test_the_doctor_names_the_command_for_an_extra_that_is_not_installed(tmp_path: Path) -> None:
    metadata = tmp_path / "onhand-0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(
        "Metadata-Version: 2.4\nName: onhand\nVersion: 0\n"
        "Provides-Extra: wings\nRequires-Dist: no-such-feathers>=2; extra == 'wings'\n"
    )
    done = run(sys.executable, "-m", "onhand", "doctor", PYTHONPATH=f"{tmp_path}{os.pathsep}{SOURCE}")
    assert done.returncode == 0
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("wings"))
    assert row.split() == ["wings", "missing", "pip", "install", "'onhand[wings]'", "no-such-feathers"]


def lint_imports(project: Path) -> subprocess.CompletedProcess[str]:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    source = str(project / "src")
    return run(sys.executable, "-c", code, "--no-cache", "--no-logo", cwd=project, PYTHONPATH=source)


@requirement("project.layers-point-one-way")
def test_imports_follow_the_contract() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout
    assert " 0 broken" in done.stdout


@requirement("project.layers-point-one-way")
@pytest.mark.parametrize(
    ("file", "code", "complaint"),
    [
        ("lexical/upwards.py", "import onhand.tools", "onhand.lexical is not allowed to import onhand.tools"),
        ("markdown/sideways.py", "import onhand.lexical", "onhand.markdown is not allowed to import onhand.lexical"),
        ("corpora/asks.py", "import onhand.config", "onhand.corpora is not allowed to import onhand.config"),
        ("helpers/__init__.py", "", "helpers"),
    ],
)
def test_an_import_the_wrong_way_and_a_room_outside_the_contract_are_found(
    tmp_path: Path, file: str, code: str, complaint: str
) -> None:
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    module = tmp_path / "src" / "onhand" / file
    module.parent.mkdir(exist_ok=True)
    module.write_text(code)
    done = lint_imports(tmp_path)
    assert done.returncode == 1
    assert complaint in done.stdout


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A directory with a `python3` that writes down what it was asked, and makes environments of itself."""
    script(
        tmp_path / "python3",
        f'echo "$*" >> "{tmp_path}/asked"\n'
        'if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; fi',
    )
    return tmp_path


def make(machine: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run make on that machine; what Python was asked, without the check of its version."""
    asked = machine / "asked"
    asked.write_text("")
    done = run("make", f"PYTHON={machine / 'python3'}", f"VENV={machine / 'venv'}", *words)
    return done, [line for line in asked.read_text().splitlines() if not line.startswith("-c ")]


@NEEDS_A_SHELL
@requirement("project.fresh-machine")
def test_the_demo_sets_itself_up_once(machine: Path) -> None:
    first, asked = make(machine, "demo")
    assert first.returncode == 0, first.stderr
    assert asked[0] == f"-m venv {machine / 'venv'}"
    assert any(line.endswith("install -c constraints.txt -e .") for line in asked[1:-1])
    assert asked[-1] == "examples/demo.py"

    second, asked = make(machine, "demo")
    assert second.returncode == 0
    assert asked == ["examples/demo.py"]


@NEEDS_A_SHELL
@requirement("project.fresh-machine")
def test_the_tests_add_their_tools_to_what_the_demo_set_up(machine: Path) -> None:
    make(machine, "demo")
    done, asked = make(machine, "test")
    assert done.returncode == 0, done.stderr
    assert asked[0].endswith("install -c constraints.txt --group dev")
    assert asked[1:] == ["-m pytest -n auto tests"]
    assert make(machine, "test")[1] == ["-m pytest -n auto tests"]


@NEEDS_A_SHELL
@requirement("project.fresh-machine")
def test_a_set_up_that_failed_is_tried_again(machine: Path) -> None:
    good = (machine / "python3").read_text()
    script(machine / "python3", good.partition("\n")[2] + '\ncase "$*" in *"-e ."*) exit 1;; esac')
    failed, asked = make(machine, "demo")
    assert failed.returncode != 0
    assert "examples/demo.py" not in asked

    script(machine / "venv" / "bin" / "python", good.partition("\n")[2])
    done, asked = make(machine, "demo")
    assert done.returncode == 0
    assert asked[-1] == "examples/demo.py"


@NEEDS_A_SHELL
@requirement("project.old-python-is-refused")
@pytest.mark.parametrize("command", ["demo", "test", "check"])
def test_an_old_python_is_refused_before_anything_is_made(tmp_path: Path, command: str) -> None:
    old = "import sys; sys.version_info = (3, 10, 14, 'final', 0); exec(sys.argv[1])"
    python3 = script(
        tmp_path / "python3",
        f'if [ "$1" != -c ]; then mkdir -p "{tmp_path}/venv"; exit; fi\nexec "{sys.executable}" -c "{old}" "$2"',
    )
    done = run("make", f"PYTHON={python3}", f"VENV={tmp_path / 'venv'}", command)
    assert done.returncode != 0
    assert "onhand needs Python 3.11 or newer; set PYTHON=" in done.stderr
    assert not (tmp_path / "venv").exists()


@NEEDS_A_SHELL
@requirement("project.ci-runs-tests-and-checks")
@pytest.mark.parametrize(
    ("failing", "called", "passes"),
    [
        ("nothing", GATE, True),
        *((command, GATE[: number + 1], False) for number, command in enumerate(GATE)),
    ],
)
def test_the_gate_runs_the_tests_and_then_the_checks_and_fails_with_either(
    tmp_path: Path, failing: str, called: list[str], passes: bool
) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(
        ROOT / ".ci", clone / ".ci"
    )  # the gate closes its directory to others, where tests run beside this one
    clone.chmod(0o755)
    script(tmp_path / "make", f'echo "$* $(stat -c %a .)" >> "{tmp_path}/called"; [ "$1" != "{failing}" ]')
    done = run(clone / ".ci" / "run", cwd=tmp_path, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert (tmp_path / "called").read_text().splitlines() == [f"{command} 700" for command in called]
    assert (done.returncode == 0) is passes
    assert stat.S_IMODE(clone.stat().st_mode) == 0o755


@NEEDS_A_SHELL
@requirement("project.cold-start-is-measured")
def test_the_cold_start_benchmark_prints_our_commands_beside_plain_python_as_ratios() -> None:
    done = run(sys.executable, "-m", "benchmarks.coldstart", "--runs", "1", ONHAND_DATA="")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith("×")]
    names = [row[:26].strip() for row in rows]
    assert names[:4] == ["python -c pass", "onhand --help", "onhand context search", "the first time"]
    assert names[4:] == ["… with dashes and accents", "the first time"]
    ratios = [float(row.rstrip("×").split()[-1]) for row in rows]
    assert ratios[0] == 1
    assert all(ratio > 0 for ratio in ratios)


@requirement("mcp.start-is-measured")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads CPU time from /proc")
def test_the_benchmark_of_serving_prints_us_beside_a_bare_server_as_a_ratio() -> None:
    done = run(sys.executable, "-m", "benchmarks.mcp_start", "--runs", "1")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith("×")]
    assert [row[:28].strip() for row in rows] == ["a bare server of the SDK", "onhand serve", "the first time"]
    ratios = [float(row.rstrip("×").split()[-1]) for row in rows]
    assert ratios[0] == 1
    assert all(ratio > 0 for ratio in ratios)


def test_every_benchmark_is_run_by_one_command_and_what_it_leaves_out_is_named() -> None:
    sources = {file.stem: file.read_text(encoding="utf-8") for file in (ROOT / "benchmarks").glob("*.py")}
    runnable = {name for name, text in sources.items() if "\ndef main(" in text} - {"__main__"}
    assert sorted([*TABLES, *LONG, *BY_ITSELF]) == sorted(runnable)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("find", ["--trees"]),
        ("vectors", ["--base"]),
        *((name, []) for name in ("everything", "quality", "skills", "tool_held_out", "tool_search")),
    ],
)
def test_a_benchmark_of_a_directory_that_is_not_there_says_which_one_it_needs(
    name: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(SystemExit) as ended:
        import_module(f"benchmarks.{name}").main([*words, missing])
    assert (ended.value.code, list(tmp_path.iterdir())) == (2, [])
    assert re.search(rf"error: .*{re.escape(missing)} (has|is not) .*: name ", capsys.readouterr().err)


@pytest.mark.parametrize(("code", "went_well"), [("None", True), ("0", True), ("1", False), ("'no server'", False)])
def test_a_benchmark_that_finds_a_failure_fails_the_command(
    code: str, went_well: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trial.py").write_text(f'"""A trial."""\nimport sys\ndef main(argv): sys.exit({code})\n')
    monkeypatch.setattr("benchmarks.__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "benchmarks.trial", raising=False)
    assert run_benchmark("trial") is went_well
    monkeypatch.delitem(sys.modules, "benchmarks.trial")
    assert capsys.readouterr().out.startswith("\n# A trial.\n")


@requirement("mcp.http-latency")
def test_the_benchmark_of_http_prints_us_beside_a_bare_server_as_a_ratio() -> None:
    done = run(sys.executable, "-m", "benchmarks.http_latency", "--calls", "3", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith("×")]
    names = ["a bare server of the SDK over HTTP", "ours over HTTP", "ours over stdio"]
    assert [row[:36].strip() for row in rows] == names
    ratios = [float(row.rstrip("×").split()[-1]) for row in rows]
    assert ratios[0] == 1
    assert all(ratio > 0 for ratio in ratios)


@requirement("mcp.http-limits")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_the_benchmark_of_attacks_prints_what_clients_keep() -> None:
    words = ["--clients", "3", "--window-s", "0.2", "--rounds", "1"]
    done = run(sys.executable, "-m", "benchmarks.http_attacks", *words, "--attack", "slow heads")
    assert done.returncode == 0, done.stderr
    _, row = done.stdout.splitlines()
    assert row.startswith("slow heads")
    assert row.split()[6] == "0"  # calls that failed
