"""Does `onhand context` work as a person runs it: in a terminal, in a pipe, interrupted, and where it may not read?"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onhand.corpora.context import Context
from requirements import requirement

SAMPLE = Path(__file__).parents[2] / "examples" / "sample-project"
MODULE = [sys.executable, "-m", "onhand"]
SCRIPT = [sys.executable, "-c", "from onhand.cli.main import script; script()"]  # what the installed command runs

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX terminals, signals and users")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / ".AGENTS").mkdir(parents=True)
    return project


def run(
    words: list[str], environ: dict[str, str], where: Path = SAMPLE, command: list[str] = MODULE
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *words], cwd=where, env=environ, capture_output=True, encoding="utf-8", timeout=60, check=False
    )


@requirement("cli.context-search", "cli.context-search-json", "cli.context-search-explain")
def test_the_sample_project_answers_the_question_about_secrets(environ: dict[str, str]) -> None:
    query = "am I allowed to print the contents of a .env file"
    done = run(["context", "search", query], environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Secrets  .AGENTS/security.md:" in done.stdout.splitlines()[0]
    answer = json.loads(run(["context", "search", "--explain", "--json", "-k", "1", query], environ).stdout)
    assert (answer["hits"][0]["path"], answer["hits"][0]["section"]["heading"]) == (".AGENTS/security.md", "Secrets")
    section = answer["hits"][0]["section"]
    first, last = section["first_line"], section["last_line"]
    page = (SAMPLE / ".AGENTS/security.md").read_text(encoding="utf-8").split("\n")
    assert "\n".join(page[first - 1 : last]) == answer["hits"][0]["section"]["text"]
    assert "env" in {part["term"] for part in answer["hits"][0]["contributions"]}


@requirement("cli.context-show", "cli.context-manifest", "context.python-api")
@pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])
def test_show_and_manifest_print_both_halves(environ: dict[str, str], command: list[str]) -> None:
    shown = run(["context", "show"], environ, command=command)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("Pinned into every prompt (")
    sources = Context(SAMPLE).searchable()
    sections = sum(source.sections for source in sources)
    assert f"Searchable ({sections} sections in {len(sources)} files)" in shown.stdout
    manifest = run(["context", "manifest"], environ, command=command)
    assert ".AGENTS/security.md" in manifest.stdout
    prompt = run(["context", "show", "--prompt"], environ, command=command)
    assert prompt.stdout.endswith(manifest.stdout)


@requirement("cli.usage-error", "cli.root", "cli.help")
@pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])
def test_exit_codes_are_0_for_help_and_2_for_wrong_usage(environ: dict[str, str], command: list[str]) -> None:
    for words, code in (
        (["--help"], 0),
        (["--version"], 0),
        (["context", "search", "--help"], 0),
        (["context", "search", "unicorn"], 0),
        (["context", "search"], 2),
        (["context", "search", "x", "-k", "0"], 2),
        (["context", "show", "--root", "nowhere"], 2),
        (["contxt"], 2),
    ):
        done = run(words, environ, command=command)
        assert done.returncode == code, words
        assert "Traceback" not in done.stderr
        assert bool(done.stderr) == (code == 2), words


def in_terminal(words: list[str], environ: dict[str, str], where: Path) -> tuple[int, str]:
    """The exit code and what a terminal gets to see."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(where)
            os.execve(sys.executable, [*MODULE, *words], environ)
        finally:
            os._exit(127)
    seen = b""
    try:
        while select.select([terminal], [], [], 60)[0]:
            chunk = os.read(terminal, 65536)
            if not chunk:
                break
            seen += chunk
    except OSError:  # how Linux says that the other side has closed
        pass
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()


@posix
@requirement("cli.plain-when-piped")
@pytest.mark.parametrize(("extra", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_a_terminal_has_colours_unless_asked_not_to(
    environ: dict[str, str], extra: dict[str, str], coloured: bool
) -> None:
    code, seen = in_terminal(["context", "search", "rollback"], {**environ, **extra}, SAMPLE)
    assert code == 0
    assert seen.startswith("\x1b[1m1. " if coloured else "1. ")
    assert ("\x1b" in seen) == coloured


@posix
@requirement("cli.plain-when-piped")
def test_a_pipe_has_none_even_when_the_terminal_would(environ: dict[str, str]) -> None:
    assert "\x1b" not in run(["context", "search", "rollback"], environ).stdout


@posix
@requirement("cli.terminal-is-safe")
def test_a_document_cannot_drive_the_terminal(environ: dict[str, str], project: Path) -> None:
    evil = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\x08\x7f\u202e"
    (project / ".AGENTS" / "a.md").write_text(f"# Zebra {evil}\n\nzebra {evil}\n", encoding="utf-8")
    code, seen = in_terminal(["context", "search", "zebra"], {**environ, "PYTHONUTF8": "1"}, project)
    assert code == 0
    plain = seen.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert not set(plain) & set(evil) - set("52;c;ZXZpbA==[2J31m]")
    assert "[U+001B]]52;c;" in plain


def started(words: list[str], environ: dict[str, str], where: Path, command: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*command, *words], cwd=where, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def many_pages(project: Path) -> None:
    """More to print than any pipe holds."""
    for number in range(60):
        (project / ".AGENTS" / f"{number}.md").write_text(f"# Page {number}\n\nzebra {'x' * 3900}\n", encoding="utf-8")


@posix
@requirement("cli.broken-pipe-and-interrupt")
@pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])
def test_an_interrupt_exits_130_without_a_traceback(environ: dict[str, str], project: Path, command: list[str]) -> None:
    many_pages(project)
    with started(["context", "search", "zebra", "-k", "60"], environ, project, command) as process:
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 1)  # it prints, and can not end before we read the rest
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")


@posix
@requirement("cli.broken-pipe-and-interrupt")
@pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])
def test_a_reader_that_goes_away_is_not_a_failure(environ: dict[str, str], project: Path, command: list[str]) -> None:
    many_pages(project)
    for words in (["search", "zebra", "-k", "60"], ["search", "zebra", "--json"], ["manifest"], ["show"], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        try:
            done = subprocess.run(
                [*command, "context", *words],
                cwd=project,
                env=environ,
                stdout=write,
                stderr=subprocess.PIPE,
                timeout=60,
                check=False,
            )
        finally:
            os.close(write)
        assert (done.returncode, done.stderr) == (0, b""), words


@posix
@requirement("cli.broken-pipe-and-interrupt")
@pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])
def test_a_reader_that_goes_away_in_the_middle_is_not_a_failure(
    environ: dict[str, str], project: Path, command: list[str]
) -> None:
    many_pages(project)
    with started(["context", "search", "zebra", "-k", "60"], environ, project, command) as process:
        assert process.stdout is not None and process.stderr is not None
        os.read(process.stdout.fileno(), 100)
        process.stdout.close()
        assert (process.wait(timeout=60), process.stderr.read()) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])
def test_a_full_disk_is_a_failure_with_a_message(environ: dict[str, str], command: list[str]) -> None:
    for words in (["search", "rollback"], ["search", "rollback", "--json"], ["show"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [*command, "context", *words],
                cwd=SAMPLE,
                env=environ,
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=60,
                check=False,
            )
        assert done.returncode == 1
        assert done.stderr == (
            b"onhand: standard output cannot be written: the disk is full; free some space and try again\n"
        )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])
def test_complaints_that_nobody_can_read_change_nothing(
    environ: dict[str, str], project: Path, command: list[str]
) -> None:
    (project / ".AGENTS/broken.md").write_bytes(b"\0")
    (project / ".AGENTS/page.md").write_text("zebra", encoding="utf-8")

    def answer(*words: str) -> tuple[int, bytes]:
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [*command, *words],
                cwd=project,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=full,
                timeout=60,
                check=False,
            )
        return done.returncode, done.stdout

    found = run(["context", "search", "zebra"], environ, project)
    assert "a binary file" in found.stderr
    assert answer("context", "search", "zebra") == (0, found.stdout.encode())
    assert answer("context", "search", "--root", "nowhere", "zebra") == (2, b"")
    assert answer("nothing") == (2, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("buffered", ["", "1"])
def test_help_that_cannot_be_written_is_a_failure(environ: dict[str, str], buffered: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*MODULE, "--help"], env={**environ, "PYTHONUNBUFFERED": buffered}, stdout=full, timeout=60, check=False
        )
    assert done.returncode == 1


@posix
@requirement("cli.output-is-written-or-fails")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "<&-"])
def test_a_closed_output_is_a_failure_and_other_closed_streams_are_none(environ: dict[str, str], closed: str) -> None:
    for words in ("context search rollback", "context search --json rollback", "config show", "--version"):
        done = subprocess.run(
            ["sh", "-c", f'"$0" -m onhand {words} {closed}', sys.executable],
            cwd=SAMPLE,
            env=environ,
            capture_output=True,
            timeout=60,
            check=False,
        )
        is_lost = ">&-" in closed.replace("2>&-", "")
        assert done.returncode == (1 if is_lost else 0)
        told = b"onhand: standard output cannot be written: it is closed\n"
        assert done.stderr == (told if is_lost and "2>&-" not in closed else b"")


@requirement("cli.plain-when-piped")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_that_cannot_say_everything_spells_it_out(environ: dict[str, str], encoding: str) -> None:
    asked = {**environ, "PYTHONIOENCODING": encoding}
    done = run(["context", "search", "境港のドックの台風対策"], asked)
    assert done.returncode == 0
    assert "\\u5883" in done.stdout
    answer = json.loads(run(["context", "search", "--json", "境港のドックの台風対策"], asked).stdout)
    assert answer["hits"][0]["section"]["heading"] == "境港パイロットの注意点"


@requirement("context.directory")
def test_the_project_is_found_from_a_directory_inside_the_repository(environ: dict[str, str], project: Path) -> None:
    (project / ".git").mkdir()
    (project / ".AGENTS" / "a.md").write_text("# Zebra\n", encoding="utf-8")
    (project / "src" / "deep").mkdir(parents=True)
    assert ".AGENTS/a.md:1-1" in run(["context", "search", "zebra"], environ, project / "src" / "deep").stdout


@pytest.fixture
def shared() -> Iterator[Path]:
    """A project in a directory that every user may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        (Path(directory) / ".AGENTS").mkdir()
        yield Path(directory)


AS_NOBODY = """
import os, sys
from onhand.cli.main import main
directory, *words = sys.argv[1:]
streams = sys.stdout, sys.stderr
sys.stdout = sys.stderr = open(os.devnull, "w")
main(["context", *words, "--root", directory])  # imports what it needs while it may
sys.stdout, sys.stderr = streams
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(main(["context", *words, "--root", directory]))
"""


@posix
@requirement("context.unreadable-is-reported", "context.reason")
def test_what_may_not_be_read_is_reported_and_the_rest_is_searched(environ: dict[str, str], shared: Path) -> None:
    root = shared / ".AGENTS"
    for name in ("good.md", "secret.md", "closed/inner.md", "listed/inner.md"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"# {name}\n\nzebra\n", encoding="utf-8")
    (root / "into.md").symlink_to("closed/inner.md")
    (root / "secret.md").chmod(0o000)
    (root / "closed").chmod(0o000)
    (root / "listed").chmod(0o444)
    command = [sys.executable, "-c", AS_NOBODY]
    try:
        done = run([str(shared), "search", "zebra", "--json"], environ, shared, command)
        assert (done.returncode, done.stderr) == (0, "")
        answer = json.loads(done.stdout)
        assert [hit["path"] for hit in answer["hits"]] == [".AGENTS/good.md"]
        assert {problem["path"]: problem["reason"] for problem in answer["problems"]} == dict.fromkeys(
            (f".AGENTS/{name}" for name in ("closed", "into.md", "listed/inner.md", "secret.md")), "permission denied"
        )
        root.chmod(0o000)
        done = run([str(shared), "search", "zebra"], environ, shared, command)
        assert done.returncode == 0
        assert done.stderr == "onhand: warning: .AGENTS/: permission denied\n"
        assert done.stdout == "there are no Markdown files to search in .AGENTS/; 1 entries cannot be used\n"
    finally:
        for directory in (root, root / "closed", root / "listed"):
            directory.chmod(0o755)
