"""Processes beside the service for work that nobody can say the duration of, each within limits that the system keeps.

``Worker.call`` runs one of the tasks there. What a task may take is processor time, which a busy machine does not change, and
memory. Both ends speak frames of pickled data, large arrays apart, so that a model of some hundred megabytes is moved without
being copied; the other end is our own code, and only ever gets data. The process is started on first use, ends after a while
without work, is started again after it was ended, and goes away with its parent, when its standard input closes.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from headwater.errors import HeadwaterError, ProblemError
from headwater.service.answers import ServiceError

log = logging.getLogger("headwater.service")

IDLE = 120.0
"""Seconds without work after which a process ends."""
START = 300.0
"""Seconds of wall time that starting may take, on however busy a machine."""
NICE, LAST = 5, 19
"""Decisions come first; and how far behind comes what nobody waits for at a desk."""
_LENGTHS = struct.Struct("<QQ")


class Allowance(NamedTuple):
    """What a task may take: processor time, and memory beyond what the process has anyway (None: no limit)."""

    seconds: float
    megabytes: int | None = None

    @property
    def patience(self) -> float:
        """Seconds of wall time after which the machine counts as too busy: twenty others may share a core."""
        return 60.0 + 20.0 * self.seconds


WARMING = Allowance(300.0)
"""What loading (on a new machine: compiling) functions may take, before any other limit counts."""


class Ended(Exception):  # noqa: N818 - it is no error of ours
    """The process ended without an answer, with this status; ``late``: because it took too long by the clock."""

    def __init__(self, status: int, *, late: bool) -> None:
        super().__init__(f"ended with status {status}")
        self.status, self.late = status, late


class Worker:
    """One process, one task at a time. ``what`` is what its limits are said to be of, ``nice`` how far it stands back."""

    def __init__(self, tasks: str, *, what: str = "this problem", who: str = "the studio", nice: int = NICE) -> None:
        self.tasks, self.what, self.who, self.nice = tasks, what, who, nice
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    @property
    def busy(self) -> bool:
        return self._lock.locked()

    def call(self, task: str, arguments: dict[str, Any], allowance: Allowance, *, wait: float | None = None) -> Any:
        """What the task returns; refused with 503 while the process is busy, with 422 where it takes more than allowed."""
        patience = allowance.patience if wait is None else wait
        if not self._lock.acquire(timeout=patience):
            raise ServiceError(503, "this is busy with another problem; try again in a moment", headers={"Retry-After": "2"})
        try:
            answer = self._ask((task, arguments, allowance), allowance.patience)
        except Ended as ended:
            raise self._refusal(ended, allowance) from None
        finally:
            self._lock.release()
        if "lines" in answer:
            raise ProblemError(answer["lines"])
        if "refused" in answer:
            status, message, code, details = answer["refused"]
            raise ServiceError(status, message, code=code, details=details)
        if "memory" in answer:
            raise self._too_much(f"{allowance.megabytes:,} MB of memory")
        if "broken" in answer:
            raise RuntimeError(f"{task} failed in the worker: {answer['broken']}")
        return answer["result"]

    def _too_much(self, limit: str) -> ServiceError:
        message = f"{self.what} takes more than the {limit} that {self.who} gives; simplify its expressions, or make it smaller"
        return ServiceError(422, message, code="too_large")

    def _refusal(self, ended: Ended, allowance: Allowance) -> ServiceError:
        if ended.status == -signal.SIGXCPU:
            return self._too_much(f"{allowance.seconds:g} s of processor time")
        if ended.late:
            return ServiceError(503, "the machine is too busy for this; try again in a moment", headers={"Retry-After": "5"})
        return self._too_much(f"{allowance.megabytes or 0:,} MB of memory")

    def _ask(self, question: Any, patience: float) -> dict[str, Any]:
        for last in (False, True):
            process = self._started()
            assert process.stdin is not None and process.stdout is not None
            late = threading.Event()

            def end(process: subprocess.Popen[bytes] = process, late: threading.Event = late) -> None:
                late.set()
                process.kill()

            timer = threading.Timer(patience, end)
            timer.start()
            try:
                _send(process.stdin, question)
                answer: dict[str, Any] = _receive(process.stdout)
                return answer
            except (BrokenPipeError, EOFError):
                status = process.wait()
                self.close()
                if status != 0 or last:  # 0: it had just gone home for want of work
                    raise Ended(status, late=late.is_set()) from None
            finally:
                timer.cancel()
        raise AssertionError("the second try answers or raises")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        command = [sys.executable, "-m", "headwater.service.worker", self.tasks, str(self.nice)]
        quiet = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **quiet})
        assert process.stdout is not None
        timer = threading.Timer(START, process.kill)
        timer.start()
        try:
            _receive(process.stdout)
        except EOFError:
            process.wait()
            raise RuntimeError("the worker process does not start") from None
        finally:
            timer.cancel()
        self._process = process
        return process

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):  # what it had not read goes with it
                    cast(Any, pipe).close()


def _send(pipe: IO[bytes], value: Any) -> None:
    """A frame: how long the data is and how many arrays follow, the data, then each array after its length."""
    arrays: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    pipe.write(_LENGTHS.pack(len(data), len(arrays)))
    pipe.write(data)
    for array in arrays:
        raw = array.raw()
        pipe.write(_LENGTHS.pack(raw.nbytes, 0))
        pipe.write(raw)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    size, arrays = _LENGTHS.unpack(_exactly(pipe, _LENGTHS.size))
    data = _exactly(pipe, size)
    buffers = [_exactly(pipe, _LENGTHS.unpack(_exactly(pipe, _LENGTHS.size))[0]) for _ in range(arrays)]
    return pickle.loads(data, buffers=buffers)


def _exactly(pipe: IO[bytes], size: int) -> bytearray:
    out = bytearray(size)
    view, done = memoryview(out), 0
    while done < size:
        got = cast(Any, pipe).readinto(view[done:])
        if not got:
            raise EOFError
        done += got
    return out


# The other end.


def main() -> None:
    """Frames with a task in, frames with its result out, until there is nothing to do."""
    os.nice(NICE)
    tasks: dict[str, Callable[..., Any]] = import_module(sys.argv[1]).TASKS
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints must not end up among the answers
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which closes the pipe
    size = _size()
    os.nice(int(sys.argv[2]) - NICE)  # only now: starting on a busy machine would take minutes
    _send(out, "ready")
    while select.select([sys.stdin.buffer], [], [], IDLE)[0]:
        try:
            task, arguments, allowance = _receive(sys.stdin.buffer)
        except EOFError:
            return
        _limit(allowance, size)
        answer = _answer(tasks[task], arguments)
        _limit(Allowance(1e6), size)
        _send(out, answer)
        if "memory" in answer:
            return
        if allowance.megabytes is None:  # it has loaded or compiled what others need
            size = _size()


def _size() -> int | None:
    """Bytes of address space in use; None where the system does not say, and memory has no limit then."""
    known = Path("/proc/self/statm")
    return int(known.read_text(encoding="ascii").split()[0]) * resource.getpagesize() if known.exists() else None


def _limit(allowance: Allowance, size: int | None) -> None:
    """Let the system end this process where it takes more; processor time counts from now."""
    _, hardest = resource.getrlimit(resource.RLIMIT_CPU)
    until = int(time.process_time() + allowance.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until, hardest))
    _, hardest = resource.getrlimit(resource.RLIMIT_AS)
    most = hardest if allowance.megabytes is None or size is None else size + allowance.megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, hardest))


def _answer(task: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": task(**arguments)}
    except ProblemError as error:
        return {"lines": list(error.complaints)}
    except ServiceError as error:
        return {"refused": (error.status, str(error), error.code, error.details)}
    except HeadwaterError as error:
        return {"lines": str(error).splitlines()}
    except (MemoryError, SystemError):  # the second: C code that found no memory, and did not say so
        return {"memory": True}
    except Exception as error:  # the parent answers for it
        log.exception("a task failed")
        return {"broken": repr(error)}


if __name__ == "__main__":
    main()
