"""Is nothing above a directory ever opened, with the kernel's help or without?"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from onhand.actions.beneath import DIRECTORY, open_beneath, open_stepwise
from requirements import requirement

pytestmark = [
    requirement("actions.confined"),
    pytest.mark.skipif(sys.platform == "win32", reason="no directory can be held open there"),
]
Opened = Callable[..., int]
WAYS: list[Opened] = [open_beneath, open_stepwise]


@pytest.mark.parametrize("opened", WAYS)
def test_a_file_below_is_opened_and_no_descriptor_is_left_open(root: Path, opened: Opened) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    directory = os.open(root, DIRECTORY)
    for inner in ("sub/ok.txt", "sub", ""):
        number = opened(directory, inner, os.O_RDONLY)
        assert not os.get_inheritable(number)
        os.close(number)
    with pytest.raises(FileNotFoundError):
        opened(directory, "sub/missing/deeper", os.O_RDONLY)
    os.close(directory)
    assert not before or len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("opened", WAYS)
@pytest.mark.parametrize("inner", ["..", "../outside/secret.txt", "sub/../../outside", "/etc/passwd", "sub//ok.txt"])
def test_a_path_that_is_not_plain_is_refused(root: Path, opened: Opened, inner: str) -> None:
    directory = os.open(root, DIRECTORY)
    with pytest.raises(OSError):
        opened(directory, inner, os.O_RDONLY)
    os.close(directory)


@pytest.mark.parametrize("opened", WAYS)
@pytest.mark.parametrize("target", ["sub/ok.txt", "../outside/secret.txt", "/etc/passwd"])
def test_no_link_is_followed_wherever_it_leads(root: Path, opened: Opened, target: str) -> None:
    (root / "link").symlink_to(target)
    (root / "linked").symlink_to("sub")
    directory = os.open(root, DIRECTORY)
    for inner in ("link", "linked/ok.txt"):
        with pytest.raises(OSError):
            opened(directory, inner, os.O_RDONLY)
    os.close(directory)
