"""A connection is made to whoever answers, and lasts no longer than its time, or than anybody waits."""

import socket
from collections.abc import Iterator
from contextvars import copy_context
from math import inf
from time import monotonic

import pytest

from onhand import wanted
from onhand.actions.connection import connected, cut
from onhand.errors import Unwanted
from requirements import requirement

LATER_S = 600.0


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def test_the_first_address_that_answers_is_connected_to(server: socket.socket) -> None:
    connection = connected(["127.0.0.2", "127.0.0.1"], port_of(server), monotonic() + LATER_S)
    assert connection is not None
    with connection:
        assert connection.getpeername() == server.getsockname()
        assert connection.getblocking()


def test_where_nobody_answers_there_is_no_connection(server: socket.socket) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # so that nobody else listens there
        assert connected(["127.0.0.1"], port_of(deaf), monotonic() + LATER_S) is None
    assert connected([], port_of(server), monotonic() + LATER_S) is None


@requirement("actions.http-get")
def test_once_the_time_is_over_no_further_address_is_tried(server: socket.socket) -> None:
    assert connected(["127.0.0.1"] * 9999, port_of(server), monotonic() - 1) is None


@requirement("actions.http-get")
def test_a_connection_is_cut_when_its_time_is_over(server: socket.socket) -> None:
    with socket.create_connection(server.getsockname()) as connection, cut(connection, monotonic() + 0.01):
        assert connection.recv(1) == b""  # though nobody closed it


@requirement("actions.end-with-the-command")
def test_a_connection_is_cut_when_nobody_waits_and_not_before(server: socket.socket) -> None:
    answers = [True, True, False]

    def work() -> None:
        wanted.ask_whether(lambda: answers.pop(0) if answers else False)
        with socket.create_connection(server.getsockname()) as connection, cut(connection, inf):
            assert connection.recv(1) == b""
        wanted.check()

    with pytest.raises(Unwanted):
        copy_context().run(work)
    assert answers == []


def test_a_connection_that_is_left_is_not_watched_any_more(server: socket.socket) -> None:
    with socket.create_connection(server.getsockname()) as connection:
        with cut(connection, monotonic() + LATER_S):
            pass
        peer, _ = server.accept()
        with peer:
            peer.sendall(b"x")
            assert connection.recv(1) == b"x"
