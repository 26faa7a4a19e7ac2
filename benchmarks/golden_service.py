"""A service's database with some campaigns in it, and what the service decided next: for another release to go on from.

python benchmarks/golden_service.py tests/goldens      # service-RELEASE.db.xz, and service-RELEASE.json beside it
"""

from __future__ import annotations

import json
import lzma
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import headwater as hw

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from service_tools import ADS, Running, pays

CAMPAIGNS: dict[str, dict[str, Any]] = {
    "plain": {"policy": "ucb1"},
    "filtered": {"policy": "c-ucb"},
    "audited": {"policy": "c-kl-ucb:audit=1"},
    "drawn": {"policy": "c-ts", "seed": 3},
    "coins": {"policy": "ts:posterior=beta", "seed": 4},
    "joint": {"policy": "joint-ucb"},
    "latent": {"policy": "latent-ts", "seed": 5},
    "rates": {"policy": "graves-lai"},
    "floor": {"policy": "auto", "floor": 0.1, "control": {"arm": "banner", "share": 0.2}, "seed": 6},
}
ROUNDS = 24


def go_on(service: Running, first: int) -> dict[str, list[list[Any]]]:
    """The next decisions of every campaign: id, arm, propensity, source. Most are rewarded, some late, some never."""
    out: dict[str, list[list[Any]]] = {}
    for i, campaign in enumerate(CAMPAIGNS):
        made, late = [], []
        for t in range(first, first + ROUNDS):
            decision = service.decide(campaign, {"unit": f"unit {t // 2}"} if i % 2 else {})
            made.append([decision["id"], decision["arm"], decision["propensity"], decision["source"]])
            if t % 5 == 2:
                late.append(decision)
            elif t % 7 != 3:
                _reward(service, decision)
        for decision in late:
            _reward(service, decision)
        out[campaign] = made
    return out


def _reward(service: Running, decision: dict[str, Any]) -> None:
    """What a decision is paid: always the same, since a unit may be given the same one again."""
    number = int(decision["id"].rsplit(".", 1)[1])
    service.reward(decision["id"], pays(decision["arm"], number * number % 3))


def main() -> None:
    folder, name = Path(sys.argv[1]), f"service-{hw.__version__}"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "service.db"
        with Running(str(path)) as service:
            for campaign, settings in CAMPAIGNS.items():
                service.campaign(id=campaign, name=campaign, problem=ADS, **settings)
            go_on(service, 0)
        service.store.close()
        with sqlite3.connect(path) as database:
            database.execute("VACUUM")
        database.close()
        (folder / f"{name}.db.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))
        with Running(str(path)) as service:
            decided = go_on(service, ROUNDS)
    (folder / f"{name}.json").write_text(json.dumps(decided, separators=(",", ":")), encoding="utf-8")


if __name__ == "__main__":
    main()
