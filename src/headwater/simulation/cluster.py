"""Chunks on a Dask cluster, one that runs already or one of processes on this machine.

Workers compute, the client writes: that is right whatever the workers can reach, leaves one writer to every folder, and costs
little, because a chunk's result is small beside the time it takes. A worker that dies loses what it was doing, and another does
it; a lost scheduler ends the run, and what was finished is in the folder.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from headwater import __version__
from headwater.complaints import shown
from headwater.errors import ClusterError, HeadwaterError
from headwater.policies.rules import Spec
from headwater.simulation.chunks import Chunk, Setting, run_chunk
from headwater.simulation.results import Outcome

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["cluster_at", "local_cluster", "run_on_cluster"]

ADDRESS = re.compile(r"((tcp|tls|ws|wss)://)?(\[[0-9a-fA-F:]+\]|[^/:\s]+):[0-9]{1,5}(/\S*)?")
PATIENCE = 8
"""Seconds to wait for a scheduler to answer."""
ATTEMPTS = 4
"""How often a chunk is handed out before the run ends: the scheduler gives it up when several workers have died on it."""
EVERY = 5
"""Seconds between two looks at how many threads the workers have."""
FAILURES = 20
"""How many workers of a local cluster may die on a chunk before its scheduler gives it up."""
GOES_ON = "finished chunks are kept in the output folder, if there is one, and --resume goes on from there"


def run_on_cluster(client: Client, chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, Outcome]]:
    """Have the workers do chunks; yields each when it is finished, in any order.

    A few per thread are handed out at a time, so that neither the scheduler nor the workers hold more than that.
    """
    from distributed import Future, as_completed

    if client.asynchronous:
        raise ClusterError("client: got an asynchronous one; expected a Client(…) that waits for its answers")
    _check_versions(client)
    waiting, running = iter(chunks), dict[Future, Chunk]()
    attempts: dict[Chunk, int] = {}
    shared: dict[Setting, Future] = {}
    room, asked = 0, -math.inf

    def hand_out(chunk: Chunk) -> Future:
        setting = chunk.setting
        if setting not in shared:
            shared.clear()  # those handed out hold on to theirs
            # As a task, not as data: Dask makes it again on another worker when one dies.
            shared[setting] = client.submit(_hold, setting, key=f"headwater-setting-{setting.digest}")
        attempt = attempts[chunk] = attempts.get(chunk, 0) + 1
        rest = (shared[setting], chunk.spec, chunk.first, chunk.size, __version__)
        future = client.submit(_work, *rest, key=f"headwater-{chunk.key}-{attempt}")
        running[future] = chunk
        return future

    def fill() -> list[Future]:
        """Hand out what there is room for; workers may come and go."""
        nonlocal room, asked
        if time.monotonic() > asked + EVERY:
            room, asked = max(2 * sum(client.nthreads().values()), 8), time.monotonic()
        return [hand_out(chunk) for chunk in islice(waiting, max(room - len(running), 0))]

    try:
        completed = as_completed(fill(), loop=client.loop)
        for future in completed:
            chunk = running.pop(future)
            outcome = _outcome(client, future, chunk, attempts[chunk])
            if outcome is None:
                completed.add(hand_out(chunk))
            completed.update(fill())
            if outcome is not None:
                yield chunk, outcome
    except (OSError, CancelledError) as error:
        raise ClusterError(f"the Dask scheduler was lost: {_line(error)}; {GOES_ON}") from None
    finally:
        if running and client.status == "running":
            client.cancel(list(running), force=True)


def _check_versions(client: Client) -> None:
    """Both read what they are sent: a scheduler or a worker without headwater would fail in ways that say nothing."""
    found = client.get_versions(packages=["headwater"])
    homes = {"the scheduler": found["scheduler"]} | {f"the worker at {at}": about for at, about in found["workers"].items()}
    for home, about in homes.items():
        has = about["packages"].get("headwater") if about else None
        if has != __version__:
            raise ClusterError(
                f"{home} has {f'headwater {has}' if has else 'no headwater'}; expected headwater {__version__}, as here"
            )


def _outcome(client: Client, future: Future, chunk: Chunk, attempt: int) -> Outcome | None:
    """A chunk's result; None where its workers died and it is to be handed out again."""
    if future.cancelled():
        raise ClusterError(f"the Dask scheduler was lost, or the work was cancelled there; {GOES_ON}")
    if future.status == "error":
        _failed(future.exception(), chunk, attempt)
        return None
    while True:
        try:
            result: Outcome = future.result(timeout=60)
        except TimeoutError:  # its worker died before the result came, and another is at it
            if client.status != "running":
                raise
        else:
            return result


def _failed(error: Exception, chunk: Chunk, attempt: int) -> None:
    """Say what a chunk failed of, unless it may be handed out again."""
    from distributed import KilledWorker

    if isinstance(error, HeadwaterError):
        raise error
    if isinstance(error, KilledWorker):
        if attempt < ATTEMPTS:
            return
        died = attempt * (error.allowed_failures + 1)
        raise ClusterError(f"{chunk}: {died} workers died while doing them, perhaps for want of memory; {GOES_ON}")
    raise ClusterError(f"{chunk}: failed on the cluster: {type(error).__name__}: {_line(error)}; {GOES_ON}") from error


def _line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _hold(setting: Setting) -> Setting:
    return setting


def _work(setting: Setting, spec: Spec | None, first: int, size: int, wanted: str) -> Outcome:
    """What a worker does: one chunk, on the Dask thread that it was given."""
    if __version__ != wanted:
        raise ClusterError(f"a worker has headwater {__version__}; expected {wanted}, like the client")
    return run_chunk(Chunk(setting, spec, first, size), threads=1)


@contextmanager
def cluster_at(address: str) -> Iterator[Client]:
    """A client of the scheduler at an address such as ``tcp://scheduler:8786``."""
    distributed = _distributed()
    if not ADDRESS.fullmatch(address):
        raise ClusterError(f"--cluster: got {shown(address)}; expected an address such as tcp://scheduler:8786")

    async def knock() -> None:
        await (await distributed.comm.connect(address, timeout=PATIENCE)).close()

    try:
        # A Client that could not connect does not go quietly; and what is no scheduler may answer with anything at all.
        asyncio.run(knock())
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, MemoryError) as error:
        reason = (
            "something else does" if isinstance(error, MemoryError) else (str(error) or type(error).__name__).splitlines()[0]
        )
        raise ClusterError(
            f"--cluster: got {address}; expected the address of a Dask scheduler that answers within {PATIENCE} s: {reason}"
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=2)


@contextmanager
def local_cluster(workers: int) -> Iterator[Client]:
    """A client of a cluster of worker processes on this machine, which ends with the context."""
    distributed = _distributed()
    import dask

    with dask.config.set({"distributed.scheduler.allowed-failures": FAILURES}), _deaf():
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=logging.CRITICAL,
            preload=[__name__],
        )
    try:
        client = distributed.Client(cluster, set_as_default=False)
        try:
            yield client
        finally:
            client.close(timeout=2)
    finally:
        cluster.close(timeout=5)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that start here ignore Ctrl-C from their first moment on; so, for that second or two, does this one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def dask_setup(_: object) -> None:
    """Dask calls this in every worker of a local cluster. Ctrl-C reaches them all, and is for the client to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _distributed() -> Any:
    """Dask's module, whose log would otherwise say at length, on standard error, what we say in a sentence."""
    try:
        import distributed
    except ImportError:
        raise ClusterError(
            'Dask is not installed; for --cluster, --workers and client: pip install "headwater[dask]"'
        ) from None
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.split(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)
    return distributed
