"""Running the service: an open database, a socket, uvicorn; and a demo campaign for whoever wants to see one live."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

import uvicorn

from headwater.errors import ProblemError
from headwater.service.app import Limits, create_app
from headwater.service.demo import Demo
from headwater.service.gate import is_loopback
from headwater.service.keys import create_key, list_keys
from headwater.service.store import Store


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there, or a sentence why it cannot."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        raise ProblemError(
            f"--host, --port: cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}"
        ) from None
    return listening


def serve(
    store: Store, *, host: str, port: int, limits: Limits, demo: bool = False, say: Callable[[str], None] = lambda line: None
) -> None:
    """Serve until told to end. Refuses to listen beyond this machine while there are no keys."""
    store.open()
    with store.read() as connection:
        keys = [key for key in list_keys(connection) if key.revoked is None]
    if demo and not keys:
        with store.write() as connection:
            text, made = create_key(connection, "demo", "admin")
        say(f"An admin key, shown this once: {text}")
        keys = [made]
    elif not keys and not is_loopback(host):
        raise ProblemError(
            f"--host: got {host}, but the database has no keys; make one first (headwater key create NAME --role admin), "
            "or listen on 127.0.0.1"
        )
    listening = bind(host, port)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listening.getsockname()[1]}"
    app = create_app(store, limits)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=10, server_header=False)
    player = Demo(app.state.desk) if demo else None
    say(f"headwater listens on {address}/ and keeps everything in {store}. Ctrl-C ends it.")
    if not keys:
        say("It has no keys: everybody on this machine may do everything (headwater key create makes one).")
    if player is not None:
        player.start()
    # uvicorn ends in good order and then sends itself the same signal again: that one does nothing, and the status is 0
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        if player is not None:
            player.stop()
        listening.close()
