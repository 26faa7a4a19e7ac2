"""A second process for work that nobody can say the duration of, so that a deadline can be kept by ending it.

``Worker.call`` runs one of the ``tasks`` there. Both ends speak lines of JSON; the process is started on first use, and again
after it was ended, and goes away with its parent, when its standard input closes.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any, cast

from headwater.errors import HeadwaterError, ProblemError
from headwater.service.answers import ServiceError

log = logging.getLogger("headwater.service")

START_SECONDS = 60.0


class Worker:
    """One process, one task at a time; others wait for as long as they would let a task take."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def call(self, task: str, arguments: dict[str, Any], seconds: float) -> Any:
        """What the task returns; refused with 503 while the process is busy, with 422 when it takes longer than ``seconds``."""
        if not self._lock.acquire(timeout=START_SECONDS if self._process is None else seconds):
            raise ServiceError(503, "this is busy with another problem; try again in a moment", headers={"Retry-After": "2"})
        try:
            line = self._ask(json.dumps([task, arguments], default=str).encode() + b"\n", seconds)
            if not line:
                self.close()  # it was told to end; until it has, it would look alive to the next call
        finally:
            self._lock.release()
        if not line:
            raise ServiceError(
                422,
                f"this problem takes more than the {seconds:g} s (or the memory) that the studio gives; "
                "simplify its expressions, or use the command line",
            )
        answer = json.loads(line)
        if "lines" in answer:
            raise ProblemError(answer["lines"])
        if "broken" in answer:
            raise RuntimeError(f"{task} failed in the worker: {answer['broken']}")
        return answer["result"]

    def _ask(self, line: bytes, seconds: float) -> bytes:
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return process.stdout.readline()
        except BrokenPipeError:  # it ended by itself, for want of memory, say
            return b""
        finally:
            timer.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        command = [sys.executable, "-m", "headwater.service.worker"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        timer = threading.Timer(START_SECONDS, process.kill)
        timer.start()
        try:
            ready = process.stdout.readline()
        finally:
            timer.cancel()
        self._process = process
        if not ready:
            self.close()
            raise RuntimeError("the worker process does not start")
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


def main() -> None:
    """The other end: a line with a task in, a line with its result out."""
    from headwater.service import tasks

    known = {"analyze": tasks.analyze, "pseudo": tasks.pseudo, "to_toml": tasks.to_toml, "parse": tasks.parse}
    table: dict[str, Any] = {**known, "simulate": tasks.simulate, "warm": tasks.warm}
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints must not end up among the answers
    out.write(b"ready\n")
    out.flush()
    for line in sys.stdin.buffer:
        task, arguments = json.loads(line)
        out.write(json.dumps(_answer(table[task], arguments)).encode() + b"\n")
        out.flush()


def _answer(task: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": task(**arguments)}
    except ProblemError as error:
        return {"lines": list(error.complaints)}
    except HeadwaterError as error:
        return {"lines": str(error).splitlines()}
    except Exception as error:  # the parent answers for it
        log.exception("a task failed")
        return {"broken": repr(error)}


if __name__ == "__main__":
    main()
