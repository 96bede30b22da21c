"""Whose settings do the tests see? Nobody's, whoever runs them, and neither do the processes that they start."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from onhand.serving import STOP_SIGNALS

NAMES = "BUNDLES CLIENTS CONFORMANCE DATA FUZZ GOLDEN HOSTILE ISOLATED PEERS"
OF_THE_TESTS = {f"ONHAND_{name}" for name in NAMES.split()}
SETTINGS = ("ONHAND_", "AGENTS_DIR", "XDG_", "NO_COLOR", "COLUMNS")

for name in [name for name in os.environ if name.startswith(SETTINGS) and name not in OF_THE_TESTS]:
    del os.environ[name]
for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
    os.environ[name] = os.path.join(os.sep, "nonexistent")
os.environ["XDG_CACHE_HOME"] = os.devnull  # nothing can be kept below it, by whatever user
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # who is started in the background is deaf, with all its children
    signal.signal(signal.SIGINT, signal.default_int_handler)
for name in ("SIGHUP", "SIGQUIT"):  # so is whom nohup starts
    if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
# How long an example takes says more of the machine, and of what else it does, than of us.
settings.register_profile("onhand", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, print_blob=True)  # other examples each time
settings.load_profile("fuzz" if os.environ.get("ONHAND_FUZZ") else "onhand")


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """A door that has ended leaves requests to end ignored: after a test they are heard as before it."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
