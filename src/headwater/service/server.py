"""Running the service: an open database, a socket, uvicorn; and a demo campaign for whoever wants to see one live."""

from __future__ import annotations

import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import uvicorn

from headwater.errors import ProblemError
from headwater.files import build_problem
from headwater.policies import spec_for
from headwater.service.app import Limits, Service, create_app
from headwater.service.campaign import warm_up
from headwater.service.checks import first_look
from headwater.service.connections import Connection, Crowd, more_descriptors
from headwater.service.demo import PROBLEM, Demo
from headwater.service.gate import is_loopback
from headwater.service.keys import create_key, list_keys
from headwater.service.models import Models
from headwater.service.store import DatabaseError, Store, damaged

FIRST_LOOK = 10.0
"""Seconds for which a start waits to hear that the database is whole."""
TURN = 5e-4
"""Seconds for which a thread keeps Python's lock while another wants it. A decision takes it some ten times, after each word
with the database; by Python's own 5 ms it waited 50 ms while other threads were busy."""


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there, or a sentence why it cannot."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
        except OSError:
            listening.close()
            raise
    except (OSError, OverflowError) as error:
        raise ProblemError(
            f"--host, --port: cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}"
        ) from None
    return listening


def server_of(app: Service) -> uvicorn.Server:
    """uvicorn, with connections within the service's bounds."""
    crowd = Crowd(app.limits.connections, lambda why: app.state.metrics.closed.labels(why).inc())
    connection: Any = partial(Connection, crowd)
    config = uvicorn.Config(
        app, http=connection, ws="none", lifespan="on", log_level="warning", access_log=False, timeout_graceful_shutdown=10,
        server_header=False,
    )  # fmt: skip
    return uvicorn.Server(config)


def set_aside() -> None:
    """Let the collector of garbage pass over what is in memory now, which stays: modules and compiled functions, some 250,000
    objects. Looking through them stopped every thread for 80 ms, every few seconds under load."""
    gc.collect()
    gc.freeze()


def serve(
    store: Store, *, host: str, port: int, limits: Limits, demo: bool = False, say: Callable[[str], None] = lambda line: None
) -> None:
    """Serve until told to end. Refuses to listen beyond this machine while there are no keys."""
    store.open()
    looking = first_look(store)
    found = _wait_for(looking, say)
    if found:
        raise DatabaseError(damaged(store, found))
    with store.read() as connection:
        every = list_keys(connection)
    keys = [key for key in every if key.revoked is None]
    text = None
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
    more_descriptors()
    sys.setswitchinterval(TURN)
    listening = bind(host, port)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listening.getsockname()[1]}"
    app = create_app(store, limits, models=Models(loaded=set_aside))
    if not looking.done():
        looking.add_done_callback(lambda done: app.state.desk.doubt(done.result()) if done.result() else None)
    player = Demo(app.state.desk) if demo else None
    say(f"headwater listens on {address}/ and keeps everything in {store}. Ctrl-C ends it.")
    if text is not None:
        say(f"Open {address}/login#key={text}")
    if every and not keys:
        say("All its keys are revoked: nobody is let in until there is another (headwater key create makes one).")
    elif not keys:
        say("It has no keys: everybody on this machine may do everything (headwater key create makes one).")
    threading.Thread(target=_warm_up, args=(say,), name="headwater-warm-up", daemon=True).start()
    if player is not None:
        player.start()
    # uvicorn ends in good order and then sends itself the same signal again: that one does nothing, and the status is 0
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        server_of(app).run(sockets=[listening])
    finally:
        if player is not None:
            player.stop()
        listening.close()


def _wait_for(looking: Future[list[str]], say: Callable[[str], None]) -> list[str]:
    """What is found in some seconds; if that takes longer, the service starts meanwhile."""
    try:
        return looking.result(2.0)
    except TimeoutError:
        say("Looking whether the database is whole …")
    try:
        return looking.result(FIRST_LOOK)
    except TimeoutError:
        say("It is a large one: the service starts meanwhile, and stops deciding if something is wrong.")
        return []


def _warm_up(say: Callable[[str], None]) -> None:
    """Compile the default policy while nobody waits for it yet; say so where that is not done in a moment."""
    slow = threading.Timer(
        5.0, say, ["Compiling policies, once on this machine; a first campaign waits for it, a minute or two."]
    )
    slow.daemon = True
    slow.start()
    problem = build_problem(PROBLEM)
    warm_up(spec_for("auto", problem), problem, None)
    slow.cancel()
