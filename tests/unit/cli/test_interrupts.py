"""A request to end is raised once, and who is ending is left to it; but not for ever."""

import signal
import subprocess
import sys

import pytest

from onhand.cli.interrupts import unwind_on_signals
from onhand.serving import STOP_SIGNALS
from requirements import requirement


@requirement("actions.end-with-the-command")
@pytest.mark.parametrize("first", STOP_SIGNALS)
def test_what_is_ended_after_a_request_is_not_interrupted_by_the_next(first: signal.Signals) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt if first == signal.SIGINT else SystemExit), unwind_on_signals():
        try:
            signal.raise_signal(first)
        finally:
            for number in STOP_SIGNALS:
                signal.raise_signal(number)
                done.append(number)
    for number in STOP_SIGNALS:
        signal.raise_signal(number)
    assert done == STOP_SIGNALS


def test_whoever_was_not_asked_to_end_hears_signals_as_before() -> None:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    with unwind_on_signals():
        assert signal.getsignal(signal.SIGTERM) != before[signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in STOP_SIGNALS} == before


def test_a_request_after_a_long_wait_in_vain_ends_it() -> None:
    script = (
        "import signal\nfrom onhand.cli import interrupts\ninterrupts.PATIENCE_S = -1.0\n"
        "with interrupts.unwind_on_signals():\n"
        "    try:\n        signal.raise_signal(signal.SIGTERM)\n"
        "    finally:\n        signal.raise_signal(signal.SIGTERM)\n        print('still here')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "")
