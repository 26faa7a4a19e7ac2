"""What a fit found: a problem, and the evidence for it. Both go into one file, which every other command takes."""

from __future__ import annotations

import json
import math
import re
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headwater.arms import plain
from headwater.arrays import Floats, Ints
from headwater.errors import ProblemError
from headwater.fitting.channels import Channel
from headwater.fitting.effects import Effects, Sizes, effect_sizes
from headwater.fitting.levels import Levels
from headwater.fitting.mixture import Choice
from headwater.latent import Discrete
from headwater.problem import Problem

_PARTS = 1_000_000
"""Probabilities are whole millionths, so that a file is short and its rows sum to one exactly."""
_DIGITS = 6


@dataclass(frozen=True)
class Stability:
    """How alike segments come out when they are found again from random halves of the units.

    ``agreement``: the adjusted Rand index between each refit and the segments kept, 1 for the same, 0 for no better than
    chance; its mean. ``segments`` (J,): for each, the overlap (shared over joint members) with its nearest of each refit; mean.
    """

    agreement: float
    segments: list[float]
    refits: int


@dataclass(frozen=True)
class Fit:
    """A problem learned from a log, and everything it rests on.

    ``segments`` (J names) with ``shares`` (J,) in the control group; ``channels`` per arm; ``levels``: the common levels of
    rewards; ``mean_loss[k, j]``: by how much the levels move the mean reward of arm k for segment j; ``choice`` and
    ``stability``: how the number of segments was chosen and how firmly they stand, where they were not given; ``profiles``:
    who is in each, in words, where features say; ``warnings``: what is shaky, in sentences; ``effects``: what arms and segments
    let expect; ``origin``: date, source, command, rows and the like, as the file states them.
    """

    name: str
    arms: list[str]
    segments: list[str]
    shares: Floats
    channels: list[Channel]
    levels: Levels
    mean_loss: Floats
    method: str
    origin: dict[str, Any]
    choice: Choice | None = None
    stability: Stability | None = None
    profiles: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    effects: Effects | None = None

    @cached_property
    def problem(self) -> Problem:
        """The learned problem, with the mix of the control group as its distribution: what ``load_problem`` reads back."""
        return Problem(
            latent=Discrete(self.segments),
            arms={name: self._arm(channel) for name, channel in zip(self.arms, self.channels, strict=True)},
            distribution=_millionths(self.shares).tolist(),
            name=self.name,
        )

    def _arm(self, channel: Channel) -> dict[str, Any]:
        outcomes = _rounded(channel.outcomes)
        out: dict[str, Any] = {"outcomes": outcomes.tolist()}
        if not self.levels.exact:
            edges = self.levels.edges
            fine = bool(np.all((outcomes[:-1] < edges) & (edges <= outcomes[1:])))
            out = {"outcomes": (outcomes if fine else channel.outcomes).tolist(), "edges": edges.tolist()}
        rows = [_millionths(row).tolist() for row in channel.probabilities]
        # never below the mean, nor above the largest outcome, as both stand in the file after rounding
        mean, largest = np.array(rows) @ np.array(out["outcomes"]), max(out["outcomes"])
        out["observations"] = _short(channel.effective)
        out["mean_high"] = np.minimum(np.maximum(_short(channel.mean_high), mean), largest).tolist()
        return out | {"probabilities": rows}

    def effect_sizes(self) -> Sizes:
        """How far mean rewards differ by arm, by segment, and by what is special to both together."""
        return effect_sizes(np.stack([channel.mean for channel in self.channels]), self.shares)

    def effects_in_words(self) -> str:
        """What the data say of arms and segments, in a sentence.

        >>> from headwater import fit
        >>> log = {"ad": ["a", "a", "b", "b"] * 99, "who": ["x", "y"] * 198, "won": [1, 0, 1, 0] * 99}
        >>> fit(log, arm="ad", reward="won", segment="who").effects_in_words()  # doctest: +ELLIPSIS
        'Mean rewards differ by 0 from arm to arm, by 0.5 from segment to segment, ...: 0 %, 100 % and 0 % of what means vary.'
        """
        sizes = self.effect_sizes()
        if len(self.segments) == 1:
            return f"Mean rewards differ by {sizes.arms:.3g} from arm to arm (a standard deviation)."
        parts = [f"{share:.0%}".replace("%", " %") for share in sizes.parts]
        return (
            f"Mean rewards differ by {sizes.arms:.3g} from arm to arm, by {sizes.segments:.3g} from segment to segment, and by "
            f"{sizes.together:.3g} in what is special to an arm and a segment together (standard deviations): {parts[0]}, "
            f"{parts[1]} and {parts[2]} of what means vary."
        )

    def intervals_in_words(self) -> str:
        """Which intervals are stated, in a sentence."""
        over = self.origin["intervals_over"]
        words = {"rewards": "rewards", "units": "units", "effective rewards": "as many rewards as a cell's are worth"}[over]
        return (
            f"Intervals are stated at {100 * self.origin['confidence']:g} %, each by itself: Gaffke's of means, Clopper and "
            f"Pearson's of probabilities, over {words}."
        )

    def level(self, rewards: Floats) -> Ints:
        """The common level of each reward; where levels are values, the nearest one's."""
        return self.levels.of(np.asarray(rewards, dtype=float))

    def assign(self, unit: Ints, arm: Ints, rewards: Floats) -> Floats:
        """P(segment | a unit's rewards), (units, J), from the control group's mix: a row per reward numbers its unit and arm.

        The numbers of ``unit`` are 0, 1, …; those of ``arm`` follow ``arms``.
        """
        units = int(np.max(unit, initial=-1)) + 1
        scores = np.tile(np.log(np.maximum(self.shares, 1e-300)), (units, 1))
        table = np.full((len(self.arms), self.levels.size, len(self.segments)), math.log(1e-12))
        for k, channel in enumerate(self.channels):
            table[k, channel.level] = np.log(np.maximum(channel.probabilities.T, 1e-12))
        np.add.at(scores, unit, table[arm, self.level(rewards)])
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def evidence(self) -> dict[str, Any]:
        """What the file states beside the problem."""
        out = dict(self.origin) | {"method": self.method}
        if self.choice is not None:
            out["choice"] = {
                "kinds": self.choice.kinds,
                "held_out_log_likelihood": _short(self.choice.fitness),
                "behind_best": _short(self.choice.behind),
                "standard_error": _short(self.choice.error),
                "chosen": self.choice.chosen,
            }
        if self.stability is not None:
            out["stability"] = {
                "adjusted_rand_index": _short(self.stability.agreement),
                "overlap": _short(self.stability.segments),
                "refits": self.stability.refits,
            }
        out["levels"] = {
            "exact": self.levels.exact,
            "edges": self.levels.edges.tolist(),
            "variance_lost": _short(self.levels.spread_lost),
            "information_lost": _short(self.levels.information_lost),
        }
        if self.effects is not None:
            sizes = self.effect_sizes()
            out["effects"] = {
                "arms": _short(sizes.arms),
                "segments": _short(sizes.segments),
                "together": _short(sizes.together),
                "arm_strength": self.effects.arm_strength,
                "segment_strength": self.effects.segment_strength,
            }
        out |= {"profiles": self.profiles} if self.profiles else {}
        out["warnings"] = self.warnings
        out["arms"] = {name: self._arm_evidence(k) for k, name in enumerate(self.arms)}
        return out

    def _arm_evidence(self, k: int) -> dict[str, Any]:
        channel = self.channels[k]
        return {
            "rewards": _short(float(channel.counts.sum())),
            "counts": _short(channel.counts),
            "effective": _short(channel.effective),
            "strength": channel.strength,
            "low": _short(channel.low),
            "high": _short(channel.high),
            "mean": _short(channel.mean),
            "mean_low": _short(channel.mean_low),
            "mean_high": _short(channel.mean_high),
            "mean_moved_by_levels": _short(self.mean_loss[k]),
            "pooled": [name for name, flag in zip(self.segments, channel.pooled, strict=True) if flag],
        }

    def to_dict(self) -> dict[str, Any]:
        """The problem file as data: what ``--json`` prints."""
        return self.problem.to_dict() | {"evidence": self.evidence()}

    def to_toml(self) -> str:
        """The problem file. The same log, options and seed give the same text, its date aside."""
        body = self.to_dict()
        about = f"Learned from {self.origin['source']} on {self.origin['date']}. Probabilities: a row per segment."
        return f"# {about}\n" + "\n".join(_sections(body)).strip() + "\n"

    def save(self, path: str | Path) -> None:
        """Write the problem file, whole or not at all."""
        path = Path(path)
        try:
            write_whole(path, self.to_toml())
        except OSError as error:
            raise ProblemError(f"{path}: cannot be written: {error.strerror or error}") from None


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or, after a failure, as it was before."""
    draft = path.absolute().with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _sections(body: dict[str, Any], path: tuple[str, ...] = ()) -> list[str]:
    """TOML that a person can read: a section per table, a line per list, a line per row of a table of numbers."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in body.items() if not isinstance(value, dict)]
    if lines and path:
        lines.insert(0, f"\n[{'.'.join(map(_key, path))}]")
    for key, value in body.items():
        if isinstance(value, dict):
            lines += _sections(value, (*path, key))
    return lines


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    """JSON's lists, numbers and printable texts are TOML's, too."""
    if isinstance(value, list) and value and isinstance(value[0], (list, str)) and len(value) > 1:
        return "[\n" + "".join(f"  {_value(row)},\n" for row in value) + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _millionths(p: Floats) -> Floats:
    """Probabilities in whole millionths that sum to one; none above 0 becomes 0.

    >>> _millionths(np.array([1 / 3, 2 / 3 - 1e-9, 1e-9]))
    array([3.33333e-01, 6.66666e-01, 1.00000e-06])
    """
    parts = np.where(p > 0, np.maximum(np.floor(p * _PARTS), 1), 0)
    rest = int(_PARTS - parts.sum())
    if rest > 0:
        parts[np.argsort(parts - p * _PARTS, kind="stable")[:rest]] += 1
    else:
        parts[np.argmax(parts)] += rest
    return np.asarray(parts / _PARTS)


def _rounded(outcomes: Floats) -> Floats:
    """Outcomes without digits that mean nothing: to a millionth of their range."""
    width = float(np.ptp(outcomes)) or float(np.max(abs(outcomes))) or 1.0
    digits = _DIGITS - math.floor(math.log10(width))
    rounded = np.round(outcomes, digits) if digits < 300 else outcomes
    return rounded if len(np.unique(rounded)) == len(outcomes) else outcomes


def _short(value: Any) -> Any:
    """Numbers to six digits, whole ones as integers; lists stay lists."""
    if isinstance(value, (list, np.ndarray)):
        return [_short(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return plain(float(f"{value:.{_DIGITS}g}"))
