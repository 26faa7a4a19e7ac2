"""Going once more through what ``golden_play`` recorded, and saying where something else comes out."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import headwater as hw
from golden_play import Event, cancelled, learns, make, names_of, told

CLOSE = 1e-9
"""Numbers closer than this, relative to the larger, are the same; arms with such indices tie."""


class Difference(NamedTuple):
    """Where what was decided or said is not what was recorded. ``tie``: the two arms' indices are the same, or nearly."""

    what: str
    place: str
    detail: str
    tie: bool = False


class Replayed(NamedTuple):
    """How much was compared, by what it was; what was different; decisions passed over after a difference."""

    compared: Counter[str]
    differences: list[Difference]
    skipped: int
    apart: float
    """The largest relative difference of numbers that passed as the same."""


def unlike(mine: Any, recorded: Any, path: str = "") -> list[tuple[str, str, float]]:
    """Where two JSON values differ: the place, what is there, how far numbers are apart. Keys not recorded do not count."""
    if isinstance(recorded, dict) and isinstance(mine, dict):
        pairs = [(f"{path}.{key}", mine.get(key), value) for key, value in recorded.items()]
    elif isinstance(recorded, (list, tuple)) and isinstance(mine, (list, tuple)) and len(mine) == len(recorded):
        pairs = [(f"{path}[{i}]", one, other) for i, (one, other) in enumerate(zip(mine, recorded, strict=True))]
    elif type(mine) is float and type(recorded) is float:
        if mine == recorded or (math.isnan(mine) and math.isnan(recorded)):
            return []
        return [(path, f"{mine!r}, recorded {recorded!r}", abs(mine - recorded) / max(abs(mine), abs(recorded)))]
    else:
        return [] if mine == recorded else [(path, f"{mine!r}, recorded {recorded!r}", math.inf)]
    return [found for place, one, other in pairs for found in unlike(one, other, place)]


class Replay:
    """One recorded life, gone through again. Policies that learn are loaded anew from every stored state."""

    def __init__(self, record: dict[str, Any], problem: hw.Problem) -> None:
        self.record, self.problem, self.anew = record, problem, learns(record["policy"])
        self.compared: Counter[str] = Counter()
        self.differences: list[Difference] = []
        self.skipped, self.apart, self.at, self.lost = 0, 0.0, 0, False

    def run(self) -> Replayed:
        try:
            if "state" in self.record:
                self.policy = hw.from_state(self.record["state"], self.problem)
            else:
                self.policy = make(self.record["policy"], self.problem, self.record["options"])
        except hw.HeadwaterError as error:
            self.same("refusals", [type(error).__name__, str(error)], [self.record.get("error"), self.record.get("text")])
            return self.found()
        if "error" in self.record:
            self.same("refusals", "made", self.record["text"])
            return self.found()
        for at, (kind, *rest) in enumerate(self.record["events"]):
            self.at = at
            if not self.lost or kind == "state":
                getattr(self, f"_{kind}")(*rest)
            else:
                self.skipped += 1 if kind == "select" else rest[0] if kind == "many" else 0
        return self.found()

    def found(self) -> Replayed:
        return Replayed(self.compared, self.differences, self.skipped, self.apart)

    def same(self, what: str, mine: Any, recorded: Any) -> bool:
        """Count a comparison, and what differs by more than rounding."""
        self.compared[what] += 1
        unequal = unlike(mine, recorded)
        self.apart = max([self.apart, *(apart for *_, apart in unequal if apart <= CLOSE)])
        lines = {place.rpartition(".")[0] for place, *_ in unequal if not place.endswith(".sentence")}
        far = [(place, said) for place, said, apart in unequal if apart > CLOSE]
        for place, said in far:
            if place.rpartition(".")[0] not in lines or not _reworded(mine, recorded, place):  # numbers are compared as such
                self.differences.append(Difference(what, f"event {self.at}{place}", said))
        return not far

    def decided(self, mine: Sequence[str], recorded: Sequence[int], among: list[int] | None) -> None:
        """Compare arms that were chosen one after the other; after the first that differs nothing is comparable."""
        arms = [self.problem.index(name) for name in mine]
        for i, (one, other) in enumerate(zip(arms, recorded, strict=True)):
            self.compared["decisions"] += 1
            if one != other:
                for arm in arms[i:]:
                    self.policy.cancel(arm)
                lines = self.policy.explain(names_of(self.problem, among)).arms
                first, second = lines[one].index, lines[other].index
                tie = first is not None and second is not None and abs(first - second) <= CLOSE * max(abs(first), abs(second))
                said = f"round {self.policy.rounds}: arm {one} ({first!r}), recorded {other} ({second!r})"
                self.differences.append(Difference("decisions", f"event {self.at}", said, tie))
                self.lost, self.skipped = True, self.skipped + len(arms) - i - 1
                return

    def _select(self, among: list[int] | None, arm: int) -> None:
        self.decided([self.policy.select(names_of(self.problem, among))], [arm], among)

    def _many(self, count: int, among: list[int] | None, arms: list[int]) -> None:
        self.decided(self.policy.select_many(count, names_of(self.problem, among)), arms, among)

    def _update(self, arm: int, reward: float) -> None:
        self.policy.update(self.problem.names[arm], reward)

    def _updates(self, arms: list[int], rewards: list[float]) -> None:
        self.policy.update(names_of(self.problem, arms) or [], rewards)

    def _cancel(self, arm: int, text: str) -> None:
        self.same("refusals", cancelled(self.policy, arm), text)

    def _refused(self, arm: int, reward: Any, error: str, text: str) -> None:
        self.same("refusals", list(told(self.policy, arm, reward)), [error, text])

    def _merge(self, state: dict[str, Any]) -> None:
        self.policy.merge(state)

    def _restore(self) -> None:
        self.policy = hw.from_state(json.loads(json.dumps(self.policy.state())), self.problem)

    def _propensities(self, among: list[int] | None, draws: int, shares: list[float]) -> None:
        mine = self.policy.propensities(names_of(self.problem, among), draws=draws)
        self.same("propensities", list(mine.values()), shares)

    def _explain(self, among: list[int] | None, recorded: Event) -> None:
        self.same("explanations", self.policy.explain(names_of(self.problem, among)).to_dict(), recorded)

    def _state(self, state: dict[str, Any], doubted: list[str]) -> None:
        if not self.lost:
            mine = self.policy.state()
            counted, course = _parted({**mine, "version": state["version"]}, state)
            self.lost = not self.same("states", *counted) or not self.same("doubted", self.policy.doubted, doubted)
            if course[1]:
                self.same("courses", *course)
        if self.anew or self.lost:
            self.policy, self.lost = hw.from_state(state, self.problem), False


_COURSE = ("particle", "prepared", "planned", "held", "doubted")
"""What a stored policy was about to do, and whom it blames, which one that was loaded just before may have decided anew."""


def _parted(*states: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What states counted, and where their policies were going."""
    counted = [{key: value for key, value in state.items() if key not in _COURSE} for state in states]
    return counted, [{key: state[key] for key in _COURSE if key in state} for state in states]


def _reworded(mine: Any, recorded: Any, place: str) -> bool:
    """Whether a line's sentence is the recorded one but for its numbers."""
    at = re.fullmatch(r"\.arms\[(\d+)\]\.sentence", place)
    if at is None:
        return False
    one, other = (re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", said["arms"][int(at[1])]["sentence"]) for said in (mine, recorded))
    return bool(one == other)
