"""Every acknowledged change of a plan survives, whatever happens to the file."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from onhand.errors import InputError, StoreError
from onhand.plan import plan as plan_module
from onhand.plan.plan import HEADER_BYTES, Plan, PlanJournal, Unread
from onhand.plan.relations import Node, Relations
from requirements import requirement


def nodes(plan: Plan) -> list[Node]:
    return plan.read(lambda relations: relations.all())


def names(plan: Plan) -> list[str]:
    return [node.id for node in nodes(plan)]


def add(plan: Plan, *ids: str) -> None:
    plan.change(lambda relations: [relations.add(id, context={"status": "pending"}) for id in ids])


@requirement("relations.journal")
def test_a_change_of_one_plan_is_read_by_another(tmp_path: Path) -> None:
    one, other = Plan(tmp_path / "deep" / "plan"), Plan(tmp_path / "deep" / "plan")
    assert names(other) == []
    add(one, "a", "b")
    assert nodes(other) == nodes(one)
    other.change(lambda relations: relations.update("a", {"status": "done"}))
    other.change(lambda relations: relations.add("c", parents=["a"], context={"status": "pending"}))
    assert one.read(lambda relations: relations.ready_ids()) == ["b", "c"]
    one.change(lambda relations: relations.remove("a"))
    assert nodes(other) == nodes(one) == nodes(Plan(tmp_path / "deep" / "plan"))
    assert other.read(lambda relations: relations.parents("c")) == []


@requirement("relations.journal")
def test_a_change_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    plan = Plan(tmp_path / "plan")
    add(plan, "a")
    before = (tmp_path / "plan").read_bytes()

    def half(relations: Relations) -> None:
        relations.add("b")
        relations.update("a", {"status": "done"})
        relations.add("c", parents=["nobody"])

    with pytest.raises(InputError, match="Parent node 'nobody' does not exist"):
        plan.change(half)
    assert names(plan) == ["a"]
    assert plan.read(lambda relations: relations.ready_ids()) == ["a"]
    assert (tmp_path / "plan").read_bytes() == before
    plan.change(lambda relations: None)
    assert (tmp_path / "plan").read_bytes() == before


@requirement("relations.journal")
def test_a_journal_truncated_at_any_byte_keeps_earlier_changes_and_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    plan = Plan(path, sync=False)
    states: list[tuple[int, list[str]]] = [(HEADER_BYTES, [])]  # how long the file is, and which ids it has
    for id in ("first", "second ü", "third"):
        add(plan, id, id + "+")
        states.append((path.stat().st_size, names(plan)))
    plan.change(lambda relations: relations.remove("first"))
    states.append((path.stat().st_size, names(plan)))
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        expected = [ids for length, ids in states if length <= cut][-1:] or [[]]
        assert names(Plan(path, sync=False)) == expected[0]
        add(Plan(path, sync=False), "after")
        assert names(Plan(path, sync=False)) == [*expected[0], "after"]


@requirement("relations.journal", "disk.power-loss")
@pytest.mark.parametrize("kept", [1, 5, 20])
def test_a_last_line_of_which_a_power_failure_kept_only_the_end_was_never_written(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "plan"
    add(Plan(path), "a")
    before = path.stat().st_size
    add(Plan(path), "b")
    size = path.stat().st_size
    data = path.read_bytes()
    path.write_bytes(data[:before] + bytes(size - before - kept) + data[-kept:])
    assert names(Plan(path)) == ["a"]
    add(Plan(path), "c")
    assert names(Plan(path)) == ["a", "c"]


@requirement("relations.journal")
def test_a_reader_copes_with_an_incomplete_line_and_a_shorter_file(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    plan, reader = Plan(path), Plan(path)
    add(plan, "a")
    whole = path.read_bytes()
    add(plan, "b")
    line = path.read_bytes()[len(whole) :]
    assert names(reader) == ["a", "b"]
    path.write_bytes(whole + line[:10])
    assert names(reader) == ["a"]
    path.write_bytes(whole + line)
    assert names(reader) == ["a", "b"]
    path.unlink()
    assert names(reader) == []
    add(reader, "new")
    assert names(plan) == ["new"]


@requirement("relations.journal")
@pytest.mark.parametrize("place", [0, 5, 8, 9, 20, -2])
def test_a_damaged_line_is_reported_and_nothing_is_overwritten(tmp_path: Path, place: int) -> None:
    path = tmp_path / "plan"
    plan = Plan(path)
    add(plan, "a")
    before = path.stat().st_size
    add(plan, "b")
    data = bytearray(path.read_bytes())
    data[before + place if place >= 0 else len(data) + place] ^= 1
    path.write_bytes(data)
    damaged = Plan(path)
    for _ in range(2):
        with pytest.raises(StoreError, match="is damaged at the line that begins"):
            names(damaged)
        with pytest.raises(StoreError, match="is damaged"):
            add(damaged, "c")
    assert path.read_bytes() == data


@requirement("relations.journal")
@pytest.mark.parametrize(
    "content", [b"# A page of somebody else\n", b"\x00" * 100, b"onhand-journal 9 0123456789abcdef\n", b"x"]
)
def test_a_file_that_is_not_a_journal_is_left_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "README.md"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is not a plan file and was left unchanged"):
        add(Plan(path), "a")
    assert path.read_bytes() == content


@pytest.mark.skipif(os.name != "posix", reason="pipes and permissions are of POSIX")
def test_pipes_directories_and_unreadable_files_are_rejected_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    for name in ("pipe", "directory"):
        with pytest.raises(StoreError, match=r"cannot be read: not a regular file"):
            names(Plan(tmp_path / name))
    if os.getuid():
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(StoreError, match=r"cannot be locked \(Permission denied\)"):
            add(Plan(tmp_path / "closed" / "plan"), "a")
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be locked"):
        add(Plan(tmp_path / "file" / "plan"), "a")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full disk is at hand on Linux")
def test_a_full_disk_is_reported_and_the_change_is_not_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(tmp_path / "plan")
    add(plan, "a")
    before = (tmp_path / "plan").read_bytes()
    real_open = os.open

    def full(path: str, flags: int, *mode: int) -> int:
        return real_open("/dev/full" if path == plan.path and flags & os.O_RDWR else path, flags, *mode)

    monkeypatch.setattr(os, "open", full)
    monkeypatch.setattr(os, "ftruncate", lambda *_: None)  # which a device has not
    with pytest.raises(StoreError, match=r"cannot be written: the disk is full; free some space"):
        add(plan, "b")
    monkeypatch.undo()
    assert names(plan) == ["a"]
    assert (tmp_path / "plan").read_bytes() == before


def test_an_invalid_change_in_the_journal_is_reported(tmp_path: Path) -> None:
    for change in ([{"put": {"id": "a", "parents": ["b"]}}], [{"put": 5}], [{"drop": 1}], 5, ["x"], [{"remove": None}]):
        journal = PlanJournal(tmp_path / "plan")
        journal.compact([change])
        with pytest.raises(StoreError, match="contains a change that cannot be applied"):
            names(Plan(tmp_path / "plan"))


def test_a_deeply_nested_line_is_reported_as_damage(tmp_path: Path) -> None:
    from zlib import crc32

    path = tmp_path / "plan"
    PlanJournal(path).compact([])
    text = b"[" * 200_000
    with path.open("ab") as file:
        file.write(b"%08x " % crc32(text) + text + b"\n")
    with pytest.raises(StoreError, match="is damaged"):
        names(Plan(path))


def test_an_oversized_journal_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(Plan(tmp_path / "plan"), "a")
    monkeypatch.setattr(plan_module, "MAX_BYTES", 10)
    with pytest.raises(StoreError, match="move it away and start a new plan"):
        names(Plan(tmp_path / "plan"))


@requirement("relations.journal")
def test_compacting_keeps_every_node_and_other_readers_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, reader = Plan(tmp_path / "plan"), Plan(tmp_path / "plan")
    add(plan, "a", "b")
    plan.change(lambda relations: relations.update("a", parents=["b"]))
    for number in range(20):
        plan.change(lambda relations, number=number: relations.update("b", {"number": number}))  # type: ignore[misc]
    assert len(names(reader)) == 2
    before = (tmp_path / "plan").stat().st_size
    plan.compact()
    assert (tmp_path / "plan").stat().st_size < before / 5
    assert sorted(nodes(reader)) == sorted(nodes(plan)) == sorted(nodes(Plan(tmp_path / "plan")))
    assert list(tmp_path.glob("*.new")) == []

    monkeypatch.setattr(plan_module, "COMPACT_ABOVE", 5)
    sizes = set()
    for number in range(100):
        reader.change(lambda relations, number=number: relations.update("b", {"number": number}))  # type: ignore[misc]
        sizes.add((tmp_path / "plan").stat().st_size)
    assert max(sizes) < before * 2
    assert plan.read(lambda relations: relations.get("b")) == reader.read(lambda relations: relations.get("b"))


def test_compacting_keeps_the_permissions_of_the_file(tmp_path: Path) -> None:
    plan = Plan(tmp_path / "plan")
    add(plan, "a")
    (tmp_path / "plan").chmod(0o640)
    plan.compact()
    assert (tmp_path / "plan").stat().st_mode & 0o777 == 0o640


@requirement("relations.journal")
def test_threads_share_one_plan(tmp_path: Path) -> None:
    plan = Plan(tmp_path / "plan", sync=False)
    failures: list[Exception] = []

    def work(thread: int) -> None:
        try:
            for number in range(10):
                add(plan, f"{thread}-{number}-a", f"{thread}-{number}-b")
                assert len(names(plan)) % 2 == 0
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(names(plan)) == len(names(Plan(tmp_path / "plan"))) == 160


@requirement("relations.journal")
def test_two_processes_change_one_plan_without_losing_anything(tmp_path: Path) -> None:
    code = """
import sys
from onhand.plan import plan as plan_module
from onhand.plan.plan import Plan
plan_module.COMPACT_ABOVE = 10
plan = Plan(sys.argv[1], sync=False)
for number in range(60):
    plan.change(lambda relations: relations.add(f"{sys.argv[2]}{number}", context={"status": "pending"}))
    plan.change(lambda relations: relations.update(f"{sys.argv[2]}{number}", {"status": "done"}))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "plan")]
    environ = {**os.environ, "PYTHONPATH": str(Path(plan_module.__file__).parents[2])}
    running = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, env=environ) for name in "ab"]
    assert [process.communicate()[1] for process in running] == [b"", b""]
    plan = Plan(tmp_path / "plan")
    assert sorted(names(plan)) == sorted(f"{name}{number}" for name in "ab" for number in range(60))
    assert len(plan.read(lambda relations: relations.by_status("done"))) == 120


def test_each_change_is_read_once(tmp_path: Path) -> None:
    writer, reader = PlanJournal(tmp_path / "journal"), PlanJournal(tmp_path / "journal")
    assert reader.read() == Unread(False, [])
    writer.append([1])
    writer.append({"two": "ü\n"})
    assert reader.read() == Unread(True, [[1], {"two": "ü\n"}])
    assert reader.read() == Unread(False, [])
    writer.append(None)
    assert reader.read() == Unread(False, [None])
    reader.rewind()
    assert reader.read() == Unread(True, [[1], {"two": "ü\n"}, None])
