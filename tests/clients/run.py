"""Installs the clients from npm and runs their tests, in a network that has nothing but loopback.

`make clients` does this. `make bundles` passes `bundles`, for tests that also fetch packages. ONHAND_CLIENTS names the
directory that the clients are kept in.
"""

import os
import sys

import pytest

import isolated
from clients.conversation import program_path, time_server
from clients.programs import PROGRAMS


def main(words: list[str]) -> int:
    """Install, leave the network, test."""
    time_server()
    for program in PROGRAMS:
        print(f"{program.title} {program.version}: {program_path(program)}", flush=True)
    if words == ["bundles"]:
        return int(pytest.main(["-n0", "tests/clients/test_bundles.py"]))
    try:
        isolated.enter()
        os.environ["ONHAND_ISOLATED"] = "yes"
    except OSError as error:
        print(f"the clients keep the network of this machine, because another cannot be made: {error}")
    return int(pytest.main(["-n0", "tests/clients/test_clients.py"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
