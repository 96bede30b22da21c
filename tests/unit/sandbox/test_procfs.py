"""The kernel's list of mounts is held against the plan: what is elsewhere, twice, missing or another is strange."""

import pytest

from onhand.sandbox.procfs import complete_mounts, parse_mountinfo, unexpected_mount
from requirements import requirement

LINES = (
    b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    b"23 22 0:5 / /dev rw - devtmpfs devtmpfs rw\n"
    b"24 22 0:21 / /proc rw - proc proc rw\n"
    b"25 22 254:1 /@srv /srv rw - btrfs /dev/vdb rw\n"
    b"26 25 254:9 / /srv rw - ext4 /dev/vdz rw\n"
    b"27 26 254:1 /@srv /srv rw - btrfs /dev/vdb rw\n"
    b"28 22 0:30 / /usr/share/data rw - nfs server:/data rw\n"
)
HOST = parse_mountinfo(LINES)
PLAN = [b"/usr", b"/srv/ana/boat", b"/srv/ana/boat/a b"]
HIDDEN = [b"/srv/ana/boat/.env", b"/srv/ana/boat/.aws"]
MADE = (
    b"40 1 0:50 / / rw - tmpfs tmpfs rw\n"
    b"41 40 0:51 / /proc rw - proc proc rw\n"
    b"42 40 0:52 / /dev ro - tmpfs tmpfs rw\n"
    b"43 42 0:5 /null /dev/null rw - devtmpfs devtmpfs rw\n"
)
BOUND = (
    b"44 40 254:0 /usr /usr ro - ext4 /dev/vda rw\n"
    b"45 44 0:30 / /usr/share/data ro - nfs server:/data rw\n"
    b"46 40 254:1 /@srv/ana/boat /srv/ana/boat rw - btrfs /dev/vdb rw\n"
    b"47 46 254:1 /@srv/ana/boat/a\\040b /srv/ana/boat/a\\040b ro - btrfs /dev/vdb rw\n"
)
COVERED = (
    b"48 46 0:5 /null /srv/ana/boat/.env ro - devtmpfs devtmpfs rw\n"
    b"49 46 0:53 / /srv/ana/boat/.aws ro - tmpfs tmpfs rw\n"
)


def test_mounts_as_planned_are_complete_and_not_strange() -> None:
    mounts = complete_mounts(lambda: MADE + BOUND + COVERED, HOST)
    assert mounts == parse_mountinfo(MADE + BOUND + COVERED)
    assert unexpected_mount(mounts, HOST, PLAN, HIDDEN) is None


@requirement("sandbox.run")
@pytest.mark.parametrize("place", [b"/newroot", b"/oldroot", b"/newroot-of-ana/work"])
def test_a_directory_may_be_called_as_those_in_which_mounts_are_made(place: bytes) -> None:
    mounted = MADE + b"44 40 254:0 %s %s rw - ext4 /dev/vda rw\n" % (place, place)
    assert unexpected_mount(complete_mounts(lambda: mounted, HOST), HOST, [place], []) is None


def test_a_name_may_hold_what_ends_a_line_elsewhere() -> None:
    (mount,) = parse_mountinfo(b"22 1 254:0 /a\rb\x0c /a\rb\\012c rw - ext4 /dev/vda rw\n")
    assert mount == (b"22", b"1", b"254:0", b"/a\rb\x0c", b"/a\rb\nc", b"ext4")


@requirement("sandbox.policy")
def test_only_the_terminal_that_a_command_writes_to_is_its_console() -> None:
    host = parse_mountinfo(LINES + b"29 23 0:24 / /dev/pts rw - devpts devpts rw\n")
    console = MADE + BOUND + COVERED + b"60 42 0:24 /3 /dev/console rw - devpts devpts rw\n"
    assert unexpected_mount(parse_mountinfo(console), host, PLAN, HIDDEN, b"/dev/pts/3") is None
    assert unexpected_mount(parse_mountinfo(console), host, PLAN, HIDDEN, b"/dev/pts/4") == b"/dev/console"
    assert unexpected_mount(parse_mountinfo(console), host, PLAN, HIDDEN) == b"/dev/console"


def test_what_is_still_being_mounted_is_not_complete() -> None:
    elsewhere = MADE.replace(b" / /", b" / /newroot/")
    assert complete_mounts(lambda: LINES + elsewhere, HOST) == []


def test_a_list_that_was_begun_before_the_move_is_read_again() -> None:
    lists = iter([b"60 1 254:0 / /oldroot rw - ext4 /dev/vda rw\n" + MADE, MADE + BOUND])
    assert complete_mounts(lambda: next(lists), HOST) == parse_mountinfo(MADE + BOUND)


@requirement("sandbox.policy")
@pytest.mark.parametrize(
    ("more", "where"),
    [
        (b"60 40 254:1 /@srv/ana /srv/ana rw - btrfs /dev/vdb rw\n", b"/srv/ana"),
        (b"60 46 254:1 /@srv/ana /srv/ana/boat/a\\040b rw - btrfs /dev/vdb rw\n", b"/srv/ana/boat/a b"),
        (b"60 46 254:1 /@srv/ana/boat /srv/ana/boat rw - btrfs /dev/vdb rw\n", b"/srv/ana/boat"),
        (b"60 40 254:0 /tmp /tmp rw - ext4 /dev/vda rw\n", b"/tmp"),
        (b"60 40 0:5 / /dev rw - devtmpfs devtmpfs rw\n", b"/dev"),
        (b"60 40 0:21 / /proc rw - proc proc rw\n", b"/proc"),
        (b"60 40 0:30 / /data rw - nfs server:/data rw\n", b"/data"),
        (b"60 44 254:0 /root /usr/local rw - ext4 /dev/vda rw\n", b"/usr/local"),
    ],
)
def test_what_is_mounted_besides_is_strange(more: bytes, where: bytes) -> None:
    assert unexpected_mount(parse_mountinfo(MADE + BOUND + COVERED + more), HOST, PLAN, HIDDEN) == where


@requirement("sandbox.policy")
def test_what_is_not_mounted_or_shows_something_else_is_strange() -> None:
    assert unexpected_mount(parse_mountinfo(MADE + COVERED), HOST, PLAN, HIDDEN) == b"/usr"
    assert unexpected_mount(parse_mountinfo(MADE + BOUND), HOST, PLAN, HIDDEN) == HIDDEN[0]
    other = BOUND.replace(b"/@srv/ana/boat/a\\040b", b"/@srv/ana/.ssh")
    assert unexpected_mount(parse_mountinfo(MADE + other + COVERED), HOST, PLAN, HIDDEN) == b"/srv/ana/boat/a b"


def test_what_was_mounted_beneath_another_mount_is_not_taken_for_what_is_seen() -> None:
    host = parse_mountinfo(
        b"1 1 0:2 / / rw - rootfs rootfs rw\n"
        b"22 1 254:0 / / rw - ext4 /dev/vda rw\n"
        b"23 22 254:3 / /srv/ana/boat rw - ext4 /dev/vdc rw\n"
        b"24 22 254:1 /@srv /srv rw - btrfs /dev/vdb rw\n"
    )
    work = b"40 1 0:50 / / rw - tmpfs tmpfs rw\n41 40 254:1 /@srv/ana/boat /srv/ana/boat rw - btrfs /dev/vdb rw\n"
    assert unexpected_mount(parse_mountinfo(work), host, [b"/srv/ana/boat"], []) is None
    assert (
        unexpected_mount(
            parse_mountinfo(work.replace(b"254:1 /@srv/ana/boat", b"254:3 /")), host, [b"/srv/ana/boat"], []
        )
        is not None
    )


def test_where_everything_is_shown_the_mounts_of_the_host_are_not_strange() -> None:
    root = b"40 1 254:0 / / ro - ext4 /dev/vda rw\n41 40 254:1 /@srv /srv ro - btrfs /dev/vdb rw\n"
    own_proc = b"42 40 0:51 / /proc rw - proc proc rw\n"
    assert unexpected_mount(parse_mountinfo(root + own_proc), HOST, [b"/"], []) is None
