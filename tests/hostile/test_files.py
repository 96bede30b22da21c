"""Whatever lies in a directory that is imported, and whatever happens meanwhile, each file is read whole or told of."""

import io
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from hostile.cases import Case, Phrases, each, evaluate, quantity
from onhand import open_index
from onhand.errors import OnhandError
from requirements import requirement
from unit.corpora.sources.conftest import Imported, imported

TEXT = "the dock sensors of 境港 cost five euros"
phrases = Phrases()


@requirement("documents.bad-input")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", each("files"))
def test_a_file_is_read_whole_or_reported(case: Case, tmp_path: Path) -> None:
    assert case.expected in ("accept", "bounded", "reject"), "teach this runner what to expect"
    phrases.act(case, tmp_path)


def onhand(directory: Path, *words: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **options.pop("env", {})}
    command = [*options.pop("before", []), sys.executable, "-m", "onhand", *words]
    done = subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, timeout=90, **options)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def is_read_or_told(read: Imported, is_document: bool | None = None) -> None:
    assert read.documents or read.problems
    if is_document is not None:
        assert bool(read.documents) is is_document, read.problems


def of(directory: Path, content: bytes, name: str = "file.md") -> Imported:
    (directory / name).write_bytes(content)
    return imported(directory / name)


@phrases.mean(r"zip|tar|archive|entry")
def an_archive(case: Case, found: Any, directory: Path) -> None:
    """Archives are not opened, whatever they are called."""
    raw = io.BytesIO()
    if re.search(r"\btar\b", case.words):
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for name, kind in (("/etc/x", tarfile.REGTYPE), ("dev", tarfile.CHRTYPE), ("../x", tarfile.SYMTYPE)):
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = kind, "/etc/passwd"
                tar.addfile(entry)
    else:
        with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("../../evil.md", "evil " * 1_000_000)
    for name in ("a.zip", "a.md", "a.tar.gz"):
        (directory / "inside").mkdir(exist_ok=True)
        is_read_or_told(of(directory / "inside", raw.getvalue(), name), is_document=False)
    assert [path.name for path in directory.iterdir()] == ["inside"]


@phrases.mean(r"ENOSPC|no space|tmpfs (?:size|nr_inodes)=\S+|disk full|quota")
def a_full_disk(case: Case, found: Any, directory: Path) -> None:
    option = re.search(r"(?:size|nr_inodes)=\w+", case.words)
    made = f"mount -t tmpfs -o {option[0] if option else 'size=1m'} tmpfs"
    mount = made + ' "$0" && cp "$0.md" "$0/a.md" && cd "$0" && exec "$@"'
    disk = directory / "disk"
    disk.mkdir()
    (directory / "disk.md").write_text(("\n\n" + TEXT) * 15_000)
    namespace = ["unshare", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a disk of our own")
    done = onhand(disk, "docs", "import", "a.md", before=[*namespace, "sh", "-c", mount, str(disk)])
    if option and "inodes" in option[0]:
        return  # ten names are enough for us
    assert done.returncode != 0
    assert re.search(r"full|space", done.stderr), done.stderr


@phrases.mean(r"create/delete|changes? while walk|appears?|vanish")
def names_change(case: Case, found: Any, directory: Path) -> None:
    """A walk during changes ends, and the next one sees what is there in the end."""
    over = Event()

    def change() -> None:
        number = 0
        while not over.is_set():
            (directory / f"moving{number % 50}.md").write_text(TEXT)
            (directory / f"moving{(number + 25) % 50}.md").unlink(missing_ok=True)
            number += 1

    mover = Thread(target=change)
    mover.start()
    try:
        for _ in range(5):
            imported(directory)
    finally:
        over.set()
        mover.join()
    names = {path.name for path in directory.glob("*.md")}
    assert {Path(document.id).name for document in imported(directory).documents} == names


@phrases.mean(r"rewrite|rename swap|replaced|changes? while|mid.(?:read|index)")
def content_changes(case: Case, found: Any, directory: Path) -> None:
    """Every version that is read is a whole one."""
    over, versions = Event(), [letter * 200_000 for letter in "ab"]
    file = directory / "moving.md"
    file.write_text(versions[0])

    def change() -> None:
        while not over.is_set():
            for version in versions:
                (directory / "next").write_text(version)
                os.replace(directory / "next", file)

    mover = Thread(target=change)
    mover.start()
    try:
        for _ in range(30):
            for document in imported(file).documents:
                assert len(set(document.text.strip())) == 1
    finally:
        over.set()
        mover.join()


@phrases.mean(r"(?:user_version|version) (\d+)|from the (future|past)")
def another_version(case: Case, found: Any, directory: Path) -> None:
    path = directory / "documents.db"
    with open_index(path, None) as index:
        index.put(of(directory, TEXT.encode()).documents)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {found[1] or 999}")
    connection.close()
    before = path.read_bytes()
    try:
        with open_index(path, None) as index:
            assert index.keyword("dock").hits
    except OnhandError as error:
        assert str(error)
        assert path.read_bytes() == before


@phrases.mean(r"foreign|another .*(?:db|database)|application_id")
def a_foreign_file(case: Case, found: Any, directory: Path) -> None:
    path = directory / "documents.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(OnhandError):
        open_index(path, None)
    assert path.read_bytes() == before


@phrases.mean(
    r"\b(?!TZ|size|nr_inodes)([A-Z_]+)=(\S*)|read.?only (?:cache|home|state)|\bcache\b.*(?:chmod|read.?only|unwritable)"
)
def another_environment(case: Case, found: Any, directory: Path) -> None:
    """Whatever the environment says, a file is imported and found."""
    (directory / "a.md").write_text(TEXT)
    (directory / "closed").mkdir()
    (directory / "closed").chmod(0o555)
    env = {found[1]: found[2]} if found[1] else {"XDG_CACHE_HOME": str(directory / "closed")}
    assert onhand(directory, "docs", "import", "a.md", env=env).returncode == 0
    shown = onhand(directory, "docs", "keyword", "sensors", env=env)
    assert (shown.returncode, "dock sensors" in shown.stdout) == (0, True), shown.stderr


@phrases.mean(r"ulimit|open files|file descriptors|EMFILE")
def few_descriptors(case: Case, found: Any, directory: Path) -> None:
    """With few file descriptors a directory is imported, or refused in words."""
    for number in range(40):
        (directory / f"{number}.md").write_text(TEXT)
    limit = ["sh", "-c", f'ulimit -n {max(quantity(case.words, 16), 12)} && exec "$@"', "sh"]
    done = onhand(directory, "docs", "import", ".", before=limit)
    assert done.returncode == 0 or done.stderr.startswith("onhand"), done.stderr


@phrases.mean(r"chmod 0*0?00?\b|permission|unreadable|EACCES|not readable")
def a_closed_file(case: Case, found: Any, directory: Path) -> None:
    """What may not be read is told of, and the rest is read."""
    (directory / "a.md").write_text(TEXT)
    (directory / "closed.md").write_text(TEXT)
    (directory / "closed.md").chmod(0)
    read = imported(directory)
    assert "a.md" in [Path(document.id).name for document in read.documents]
    assert len(read.documents) + len(read.problems) == 2


@phrases.mean(
    r"^(.*\.md) and (.*\.md)$|(?:^|; )([^;]*(?:\\x[0-9a-f]{2}|\\[nt]|[^\x20-\x7e])[^;]*\.md)$|case twins|names? with"
)
def odd_names(case: Case, found: Any, directory: Path) -> None:
    """Every file is read under a name of its own, and no name forges a line."""
    names = [name for name in found.groups() if name] or ["A.md", "a.md"]
    for number, name in enumerate(names):
        raw = evaluate(f"b'{name}'") if name.isascii() else name.encode()
        with open(os.path.join(os.fsencode(directory), raw), "wb") as file:
            file.write(f"{TEXT} {number}".encode())
    read = imported(directory)
    assert len({document.id for document in read.documents}) + len(read.problems) == len(names)
    assert "\n" not in "".join(problem.path for problem in read.problems)


@phrases.mean(r"CRLF|line ends?|\\r\\n|lone CR|old Mac")
def line_ends(case: Case, found: Any, directory: Path) -> None:
    end = "\r" if re.search(r"lone CR\b|Mac", case.words) else "\r\n"
    read = of(directory, f"# Dock{end}{end}{TEXT}{end}".encode())
    assert TEXT in read.only.text


@phrases.mean(r"([\d,]+k?) (headings|lines|links|sections|columns|fields|levels)")
def a_file_of_many(case: Case, found: Any, directory: Path) -> None:
    unit = {"headings": "# Dock\n\n", "sections": "## Dock\n\ntext\n", "links": "[a](b.md) ", "levels": "> "}
    is_read_or_told(of(directory, (unit.get(found[2], "dock\n") * min(quantity(found[1]), 100_000)).encode()))


@phrases.mean(r"umask")
def umask(case: Case, found: Any, directory: Path) -> None:
    (directory / "a.md").write_text(TEXT)
    done = onhand(directory, "docs", "import", "a.md", umask=0)
    assert done.returncode == 0, done.stderr
    modes = {path.name: path.stat().st_mode & 0o777 for path in (directory / ".onhand").rglob("*.db*")}
    assert modes
    assert all(mode & 0o022 == 0 for mode in modes.values()), modes  # nobody else may write them


@phrases.mean(r"Ctrl-C|SIGINT|SIGHUP|SIGTERM|SIGPIPE|SIGQUIT|terminal closed")
def a_signal(case: Case, found: Any, directory: Path) -> None:
    """A command that is told to end does so without a traceback."""
    name = {"Ctrl-C": "SIGINT", "terminal closed": "SIGHUP"}.get(found[0], found[0])
    words = [sys.executable, "-m", "onhand", "serve"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=directory, env=environ, **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(getattr(signal, name))
        _, told = process.communicate(timeout=60)
    assert b"Traceback" not in told
    assert process.returncode in (0, 130, 128 + getattr(signal, name), -getattr(signal, name))


@phrases.mean(r"env -i|HOME unset|unset HOME")
def no_environment(case: Case, found: Any, directory: Path) -> None:
    (directory / "AGENTS.md").write_text("# Zebra\n\nzebra\n")
    command = ["env", "-i", f"PYTHONPATH={os.pathsep.join(sys.path)}", sys.executable, "-m", "onhand"]
    done = subprocess.run([*command, "rules", "search", "zebra"], cwd=directory, capture_output=True, text=True)
    assert (done.returncode, "Zebra" in done.stdout) == (0, True), done.stderr


@phrases.mean(r"rmdir|cwd deleted|directory (?:is )?gone")
def no_directory(case: Case, found: Any, directory: Path) -> None:
    (directory / "gone").mkdir()
    gone = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(directory / "gone")]
    done = onhand(directory, "rules", "search", "zebra", before=gone)
    assert done.returncode != 0
    assert done.stderr


@phrases.mean(r"\bTZ=(\S+)|time ?zone|Europe/|\bDST\b|America/|UTC")
def another_time_zone(case: Case, found: Any, directory: Path) -> None:
    """Times are kept in UTC, whatever the zone."""
    zone = found[1] or next(iter(re.findall(r"\b[A-Z]\w+/\w+", case.words)), "Europe/Zurich")
    (directory / "a.md").write_text(TEXT)
    os.utime(directory / "a.md", (1774747800, 1774747800))
    done = onhand(directory, "docs", "import", "a.md", env={"TZ": zone})
    assert done.returncode == 0, done.stderr
    with open_index(directory / ".onhand/documents.db", None) as index:
        (hit,) = index.keyword("dock").hits
        assert hit.created_time == datetime.fromtimestamp(1774747800, UTC)


@phrases.mean(r"epoch (\d+)|(\d{4})-(\d\d)-(\d\d)|faketime|clock|mtime")
def another_time(case: Case, found: Any, directory: Path) -> None:
    """A file of any time is read, and a change is noticed even where its time does not show it."""
    time = datetime.fromisoformat(f"{found[0]}T00:00+00:00").timestamp() if found[2] else int(found[1] or 10**9)
    (directory / "a.md").write_text(TEXT)
    os.utime(directory / "a.md", (time, time))
    created = imported(directory / "a.md").only.created_time
    assert created and created.timestamp() == time
    (directory / "a.md").write_text(TEXT.replace("dock", "quay"))
    os.utime(directory / "a.md", (time, time))
    assert "quay" in imported(directory / "a.md").only.text


@phrases.mean(r"([\d,]+) (?:names|files)|(\d+M?) files")
def many_names(case: Case, found: Any, directory: Path) -> None:
    many = min(quantity(case.words, 2000), 2000)
    for number in range(many):
        (directory / f"{number}.md").write_text(f"word{number}")
    assert len(imported(directory).documents) == many


@phrases.mean(r"mkdir chain|depth (\d+)|deep|nested dir")
def deep_directories(case: Case, found: Any, directory: Path) -> None:
    """A tree of any depth is walked, or told of."""
    here = os.open(directory, os.O_RDONLY)
    try:
        for _ in range(min(quantity(case.words, 5000), 5000)):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        (directory / "top.md").write_text(TEXT)
        assert [document.text for document in imported(directory).documents] == [TEXT]
    finally:
        os.close(here)
        subprocess.run(["rm", "-rf", str(directory / "d")], check=True)


@phrases.mean(r"symlink|links?\b")
def links(case: Case, found: Any, directory: Path) -> None:
    (directory / "a.md").symlink_to("/etc/passwd")
    (directory / "loop").symlink_to(directory)
    assert not [document for document in imported(directory).documents if "root:" in document.text]


@phrases.mean(r"fifo|device|socket|pipe")
def no_regular_file(case: Case, found: Any, directory: Path) -> None:
    os.mkfifo(directory / "pipe.md")
    imported(directory / "pipe.md")


@phrases.mean(r"\b(?:0 bytes|empty)\b")
def an_empty_file(case: Case, found: Any, directory: Path) -> None:
    is_read_or_told(of(directory, b""), is_document=False)


@phrases.mean(r"(\d[\d,]*) NUL bytes|NUL|binary|ELF|png|jpe?g|gif|pdf|/bin/\w+")
def binary(case: Case, found: Any, directory: Path) -> None:
    heads = {"png": b"\x89PNG\r\n\x1a\n", "jp": b"\xff\xd8\xff\xe0", "gif": b"GIF89a", "pdf": b"%PDF-1.7\n"}
    head = next((raw for word, raw in heads.items() if word in case.words.lower()), b"\x7fELF\2\1\1\0")
    content = bytes(quantity(found[1])) if found[1] else head + bytes(500)
    is_read_or_told(of(directory, content), is_document=False)


@phrases.mean(r"\\x")
def bytes_in_words(case: Case, found: Any, directory: Path) -> None:
    """Bytes that are written out: the text around them is kept."""
    escaped = "".join(re.findall(r"\\x[0-9a-f]{2}", case.setup))
    content = evaluate(f"b'{escaped}'")
    read = of(directory, b"costs 5 " + content)
    assert "costs 5" in read.only.text


@phrases.mean(r"yes \||no newline|[\d,]+ ?[KMGT]i?B\b|head -c (\S+)|truncate -s|sparse")
def a_large_file(case: Case, found: Any, directory: Path) -> None:
    """What is too large is told of, not read."""
    with (directory / "large.md").open("wb") as file:
        file.write(b"y" * 4096)
        file.truncate(max(quantity(re.sub(r"(\d)([KMG])\b", r"\1 \2iB", case.words), 100 << 20), 8192))
    is_read_or_told(imported(directory / "large.md"), is_document=False)


def codec_in(words: str) -> str | None:
    """The first encoding that a description names."""
    for word in map(str, re.findall(r"[\w-]+", words)):
        try:
            "a".encode(word)
            return word
        except LookupError:
            continue
    return None


@phrases.mean(r"[\w-]*(?:jis|utf|latin|iso|cp\d|windows|koi|euc|gb|big5|ascii|bom)[\w-]*")
def another_encoding(case: Case, found: Any, directory: Path) -> None:
    codec = codec_in(case.description) or codec_in(case.words) or "utf-8-sig"
    content = TEXT.encode(codec, "replace")
    is_read_or_told(of(directory, content), is_document=True if case.expected == "accept" else None)
