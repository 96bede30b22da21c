"""When the power fails, nothing that was acknowledged is lost, whatever the disk did with what was not synced."""

import os
import sys
from pathlib import Path
from random import Random

import pytest

import disk
import power
from disk import MODES, Operation
from requirements import requirement

CUTS = int(os.environ.get("ONHAND_POWER_CUTS", "12"))  # for each kind of file and of failure; `make fuzz` makes more
WRITES = int(os.environ.get("ONHAND_POWER_WRITES", "30"))
SEED = int(os.environ.get("ONHAND_POWER_SEED", "20261118"))


def recorded(kind: str, tmp_path: Path) -> list[Operation]:
    """What a writer of a kind of file did."""
    tests = Path(power.__file__).parent
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    found = disk.record([sys.executable, str(tests / "power.py"), kind, str(WRITES)], env=environ)
    if found is None:
        pytest.skip("this machine has no /dev/fuse, or does not let us mount it")
    log, done = found
    assert done.returncode == 0, done.stderr
    assert sum(operation.verb == "ack" for operation in log) == WRITES
    return list(log)


@requirement("store.acknowledged-is-kept", "disk.power-loss")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", power.KINDS)
def test_no_acknowledged_write_is_lost_and_nothing_is_damaged_when_the_power_fails(kind: str, tmp_path: Path) -> None:
    random, log = Random(f"{SEED} {kind}"), recorded(kind, tmp_path)
    for mode in MODES:
        cuts = sorted(random.sample(range(1, len(log) + 1), min(CUTS, len(log))))
        for cut, left, acked in disk.states(log, cuts, mode, random):
            place = tmp_path / f"{mode}{cut}"
            left.write_to(place)
            assert power.lost(kind, place, len(acked)) == [], f"after {cut} of {len(log)} operations, {mode}"


@requirement("disk.power-loss")
def test_the_disk_forgets_what_was_not_synced(tmp_path: Path) -> None:
    """A test that could not fail would say nothing: without syncs the same writes are lost."""
    log = [operation for operation in recorded("servers", tmp_path) if operation.verb != "sync"]
    ((_, left, acked),) = disk.states(log, [len(log)], "dropped", Random(1))
    left.write_to(tmp_path / "left")
    assert power.lost("servers", tmp_path / "left", len(acked)) != []
