"""A problem: the support of X and the arms' reward functions, checked once, frozen, and identified by its content.

The distribution of X may come along (files carry it), but it is a separate thing: the digest leaves it out, and a live
policy never reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from headwater.arms import (
    FAR,
    Arm,
    Formula,
    Function,
    Random,
    Table,
    arm_body,
    arm_text,
    as_matrix,
    check_arms,
    check_outline,
    plain,
    probes,
    spread,
    tabulate,
)
from headwater.arrays import Floats
from headwater.complaints import Complaints, shown
from headwater.distributions import Distribution, as_distribution
from headwater.errors import ProblemError, SizeError
from headwater.latent import Continuous, Discrete, Interval, Latent, Vector, listed

__all__ = [
    "FAR",
    "MAX_CELLS",
    "Arm",
    "Formula",
    "Function",
    "Problem",
    "Random",
    "Table",
    "check_outline",
    "probes",
    "spread",
]

T = TypeVar("T")

MAX_CELLS = 120_000_000
"""Arms × points of a support that is tabulated: 0.96 GB of rewards."""
MAX_WRITTEN = 20_000_000
"""Rewards of tables that are written to a problem file: as Python's numbers they take 32 bytes each."""


class Problem:
    """K arms whose rewards are known functions of one hidden X. Everything wrong with it is reported at once.

    >>> two_ads = Problem(latent=Discrete(["student", "worker", "retiree"]),
    ...                   arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]})
    >>> two_ads.names, two_ads.digest[:8]
    (('banner', 'video'), '...')
    """

    latent: Latent
    arms: dict[str, Arm]
    distribution: Distribution | None
    name: str
    reward_range: float | None

    def __init__(
        self,
        *,
        latent: Latent,
        arms: Mapping[str, Any],
        distribution: Any = None,
        name: str = "",
        reward_range: float | None = None,
    ) -> None:
        found = Complaints()
        if not isinstance(latent, (Discrete, Continuous, Vector)):
            raise ProblemError(f"latent: got {shown(latent)}; expected Discrete(…), Continuous(…) or Vector(…)")
        check_outline(arms, reward_range, found)
        if not str(name).isprintable():
            found.add("name", str(name), "printable characters, on one line")
        checked = check_arms(latent, arms, found)
        law = None if distribution is None else as_distribution(latent, distribution, found)
        found.raise_if_any()
        width = None if reward_range is None else float(reward_range)
        self.__dict__.update(latent=latent, arms=checked, distribution=law, name=str(name), reward_range=width)

    def __setattr__(self, key: str, value: Any) -> None:
        raise AttributeError(f"a Problem is frozen: cannot set {key}; build a new one")

    def __delattr__(self, key: str) -> None:
        raise AttributeError(f"a Problem is frozen: cannot delete {key}; build a new one")

    def __repr__(self) -> str:
        return f"<Problem {self.name or 'unnamed'}: {len(self.arms)} arms, {self.latent.kind} X>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.arms)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.arms)}

    def with_distribution(self, distribution: Any) -> Problem:
        """The same support and arms under another distribution."""
        arms = dict(self.arms)
        return Problem(latent=self.latent, arms=arms, distribution=distribution, name=self.name, reward_range=self.reward_range)

    def remember(self, key: str, build: Callable[[], T]) -> T:
        """What ``build`` returns, built on first use and kept with the problem, which never changes."""
        kept: dict[str, Any] = self.__dict__.setdefault("_kept", {})
        if key not in kept:
            kept[key] = build()
        return cast(T, kept[key])

    def index(self, arm: str | int | np.integer[Any], field: str = "arm") -> int:
        """An arm's number, from its name or number; refuses what is neither."""
        if isinstance(arm, str) and arm in self.arms:
            return self._numbers[arm]
        if isinstance(arm, (int, np.integer)) and not isinstance(arm, bool) and 0 <= arm < len(self.arms):
            return int(arm)
        listing = ", ".join(self.names[:20]) + (", …" if len(self.arms) > 20 else "")
        raise ProblemError(f"{field}: got {shown(arm)}; expected one of {listing}")

    @cached_property
    def deterministic(self) -> bool:
        return not any(isinstance(arm, Random) for arm in self.arms.values())

    @property
    def _tables(self) -> bool:
        return all(isinstance(arm, Table) for arm in self.arms.values())

    @cached_property
    def rewards(self) -> Floats:
        """``g[k, j]``: arm k's (expected) reward at the j-th listed point, shape (K, J). Listed supports only."""
        assert not isinstance(self.latent, Continuous)
        if not listed(self.latent) or len(self.arms) * self.latent.size > MAX_CELLS:
            raise SizeError(
                f"listing the support needs {len(self.arms)} arms × {_count(self.latent)} points; at most {MAX_CELLS:,} "
                "rewards are tabulated. Use fewer values per component, or arms that are sums over components."
            )
        if self._tables and (matrix := as_matrix(self.arms.values())) is not None:
            return matrix
        out = np.empty((len(self.arms), self.latent.size))
        for k, arm in enumerate(self.arms.values()):
            out[k] = tabulate(arm, self.latent)
        out.setflags(write=False)
        return out

    @cached_property
    def digest(self) -> str:
        """A name for the content that policies depend on (support, arms, reward_range): the same on every machine."""
        for name, arm in self.arms.items():
            if isinstance(arm, Function):
                raise ProblemError(f"arms.{name}: a Python function has no content to identify; write it as an expression")
        return self._content[0].hex()

    @cached_property
    def _content(self) -> tuple[bytes, str]:
        """Identity: a hash of support, arms and range, taken arm by arm; and the distribution with the name."""
        body = self._frame()
        extra = {key: body["latent"].pop(key, None) for key in ("probabilities", "distribution")}
        extra["name"] = body.pop("name", "")
        text = hashlib.sha256(json.dumps(body, default=str).encode()[:-1] + b', "arms": {')
        for k, (name, arm) in enumerate(self.arms.items()):
            text.update(f"{', ' if k else ''}{json.dumps(name)}: {arm_text(name, arm, self.latent)}".encode())
        text.update(b"}}")
        return text.digest(), json.dumps(extra, sort_keys=True)

    def _frame(self) -> dict[str, Any]:
        """All but the arms, in the shape of a problem file."""
        out: dict[str, Any] = {"name": self.name} if self.name else {}
        if self.reward_range is not None:
            out["reward_range"] = self.reward_range
        out["latent"] = {"kind": self.latent.kind, **_latent_body(self.latent)}
        if self.distribution is not None:
            out["latent"].update(self.distribution.spec(self.latent))
        return out

    def to_dict(self) -> dict[str, Any]:
        """The problem in the shape of a problem file. Python functions cannot be written down and are refused."""
        rewards = sum(arm.rewards.size for arm in self.arms.values() if isinstance(arm, Table))
        if rewards > MAX_WRITTEN:
            raise SizeError(
                f"a problem of {rewards:,} listed rewards cannot be written down (to a file, a folder or a worker); "
                f"at most {MAX_WRITTEN:,} are. Keep the arrays, and build the problem from them."
            )
        return self._frame() | {"arms": {name: arm_body(name, arm, self.latent) for name, arm in self.arms.items()}}

    def to_toml(self) -> str:
        """The problem as the text of a problem file; ``load_problem`` reads it back to an equal problem."""
        body = self.to_dict()
        tables = {key: body.pop(key) for key in ("latent", "arms")}
        lines = [_entry(key, value) for key, value in body.items()]
        for title, entries in tables.items():
            lines += [f"\n[{title}]", *(_entry(key, value) for key, value in entries.items())]
        return "\n".join(lines).lstrip() + "\n"


def _entry(key: str, value: Any) -> str:
    """A line of TOML. Tables stand inline: sections would have to come last, and the order of arms and components counts."""
    import tomli_w

    if not isinstance(value, dict):
        return tomli_w.dumps({key: value}).strip()
    inner = ", ".join(_entry(k, v) for k, v in value.items())
    return tomli_w.dumps({key: 0}).removesuffix("0\n") + "{ " + inner + " }"


def _latent_body(latent: Latent) -> dict[str, Any]:
    if isinstance(latent, Discrete):
        return {"values": [plain(v) if not isinstance(v, str) else v for v in latent.values]}
    if isinstance(latent, Continuous):
        return {"support": [plain(v) for v in latent.support]}
    parts: dict[str, Any] = {}
    for name, part in latent.components:
        parts[name] = {"low": part.low, "high": part.high} if isinstance(part, Interval) else [plain(v) for v in part]
    return {"components": parts}


def _count(latent: Latent) -> str:
    assert not isinstance(latent, Continuous)
    return f"{latent.size:,}" if latent.size < 1e15 else f"{float(latent.size):.3g}" if latent.size < 1e300 else "countless"
