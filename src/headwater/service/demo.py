"""A demo campaign: visitors of a made-up shop, whose mix the policy does not know, a few of them every second."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from typing import Any

import numpy as np

from headwater.errors import HeadwaterError
from headwater.service.desk import Desk
from headwater.service.operations import Create, Decide, Operation, Settle
from headwater.service.wire import CampaignBody

log = logging.getLogger("headwater.service")

SLUG = "demo"
MIX = (0.15, 0.35, 0.3, 0.2)
PROBLEM: dict[str, Any] = {
    "name": "shop front",
    "latent": {"kind": "discrete", "values": ["student", "family", "collector", "tourist"]},
    "arms": {
        "banner": [1, 2, 0, 2],
        "video": [3, 0, 1, 0],
        "bundle": [0, 4, 2, 1],
        "coupon": {"outcomes": [0, 3], "probabilities": [[0.3, 0.7], [0.6, 0.4], [0.9, 0.1], [0.8, 0.2]]},
        "guide": [0, 1, 1, 3],
    },
}
EARLY = 300
"""Visitors of the past, so that there is something to see."""
PAUSE = 0.5
"""Seconds between two visitors."""


class Demo:
    """A thread that plays visitors against the desk, like any client would."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.rng = desk, np.random.default_rng()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headwater-demo", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _ask(self, operation: Operation) -> Any:
        asked: Future[Any] = self.desk.submit(operation)
        return asked.result(timeout=30)

    def _run(self) -> None:
        while not self.desk.alive and not self._stop.wait(0.05):
            pass
        try:
            with self.desk.campaign(SLUG):
                fresh = False
        except HeadwaterError:
            fresh = True
        if fresh:
            body = CampaignBody(
                id=SLUG, name="Demo: a shop front", problem=PROBLEM, holdout=0.02, reward_deadline=3600, default_reward=0
            )
            self._ask(Create(body))
            for _ in range(EARLY):
                self._visit()
        while not self._stop.wait(PAUSE):
            try:
                self._visit()
            except HeadwaterError:  # paused, archived, or the database is away for a moment
                time.sleep(PAUSE)
            except Exception:
                log.exception("the demo's visitor failed")
                return

    def _visit(self) -> None:
        made = self._ask(Decide(SLUG, [None]))[0]
        who = int(self.rng.choice(len(MIX), p=MIX))
        arm = PROBLEM["arms"][made["arm"]]
        paid = arm[who] if isinstance(arm, list) else self.rng.choice(arm["outcomes"], p=arm["probabilities"][who])
        if self.rng.random() < 0.97:  # some rewards never come
            self._ask(Settle([(made["id"], float(paid))]))
