"""Whoever comes from a process is found and ended, soon."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onhand import processes
from requirements import requirement

# A process waits in the kernel, where it cannot be stopped, for as long as its child has not become another program.
STOP = f"os.kill(os.getpid(), {signal.SIGSTOP:d})"
WAITING = f"import ctypes, os; ctypes.PyDLL(None).vfork(); print('begun', flush=True); {STOP}"


@requirement("actions.shell-timeout")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks in /proc")
def test_who_waits_in_the_kernel_is_killed_without_a_wait_for_it_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[int]()
    family = processes.descendants

    def counted(ancestor: int) -> "processes.ProcessTable":
        looks.append(ancestor)
        return family(ancestor)

    monkeypatch.setattr(processes, "descendants", counted)
    words = ["/bin/sh", "-c", '"$@"; :', "sh", sys.executable, "-c", WAITING]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        while sorted(fields[0] for fields in family(process.pid).values()) != [b"D", b"T"]:
            pass  # its child stops itself: on a busy machine that would take more looks
        assert processes.kill_descendants(process.pid) == []
        assert process.stdout.read() == b""
    assert len(looks) < processes.MAX_SCANS
