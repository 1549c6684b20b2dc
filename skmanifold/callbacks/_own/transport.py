"""Messages from copies of a callback in other processes to the process in which it was created."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from threading import Thread
from typing import Any, NamedTuple


class Address(NamedTuple):
    """Where a process receives messages."""

    path: str
    key: bytes


# Of this process only; a copy of a callback in another process finds its address in neither of the first two.
_listeners: dict[str, Listener] = {}
_receivers: dict[str, Callable[[Any], object]] = {}
_connections: dict[str, Connection] = {}


def listen(receive: Callable[[Any], object], owner: object) -> Address:
    """Call `receive` with each message, in any thread, as long as `owner` exists."""
    key = os.urandom(32)
    listener = Listener(backlog=64, authkey=key)
    path = str(listener.address)
    _listeners[path], _receivers[path] = listener, receive
    weakref.finalize(owner, _close, path)
    Thread(target=_accept, args=(path, listener, receive), daemon=True).start()
    return Address(path, key)


def _accept(path: str, listener: Listener, receive: Callable[[Any], object]) -> None:
    while path in _listeners:
        try:
            connection = listener.accept()
        except (OSError, EOFError, AuthenticationError):  # closed, or the other process has ended or lacks the key
            continue
        Thread(target=_receive_all, args=(connection, receive), daemon=True).start()


def _receive_all(connection: Connection, receive: Callable[[Any], object]) -> None:
    """Receive until the sender ends; each message is acknowledged, so that none is lost at the end of a process."""
    try:
        while True:
            receive(connection.recv())
            connection.send(None)
    except (OSError, EOFError):
        return


def _close(path: str) -> None:
    _receivers.pop(path, None)
    listener = _listeners.pop(path, None)
    if listener is not None:
        listener.close()


def post(address: Address, message: Any) -> None:
    """Send a message, and wait until it has been received."""
    receive = _receivers.get(address.path)
    if receive is not None:
        receive(message)
        return
    if address.path not in _connections:
        _connections[address.path] = Client(address.path, authkey=address.key)
    connection = _connections[address.path]
    connection.send(message)
    connection.recv()


def is_of_another_process(address: Address) -> bool:
    """Whether another running process receives the messages of this address."""
    if address.path in _listeners:
        return False
    try:
        Client(address.path, authkey=address.key).close()
    except OSError:
        return False
    return True
