"""A problem: the support of X and the arms' reward functions, checked once, frozen, and identified by its content.

The distribution of X may come along (files carry it), but it is a separate thing: the digest leaves it out, and a live
policy never reads it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats
from headwater.complaints import Complaints, number, numbers, probabilities, shown, table
from headwater.distributions import Distribution, as_distribution
from headwater.errors import ExpressionError, ProblemError, SizeError
from headwater.expressions import Expression, parse
from headwater.latent import Continuous, Discrete, Interval, Latent, Vector, listed

T = TypeVar("T")

MAX_CELLS = 120_000_000
"""Arms × points of a support that is tabulated: 0.96 GB of rewards."""
MAX_REWARD = 1e300
"""The largest magnitude of a reward: the difference of two must not overflow."""


@dataclass(frozen=True, eq=False)
class Table:
    """A reward for every listed point, shape (J,)."""

    rewards: Floats


@dataclass(frozen=True)
class Formula:
    """A reward as an expression in the latent value's names."""

    expression: Expression


@dataclass(frozen=True)
class Function:
    """A reward as a Python function of one array per name."""

    function: Callable[..., Any]

    def __call__(self, *variables: Floats) -> Floats:
        shape = np.broadcast_shapes(*(np.shape(v) for v in variables))
        with np.errstate(all="ignore"):  # what is not finite is checked, with its place
            try:
                value = np.asarray(self.function(*variables), dtype=float)
                return np.broadcast_to(value, shape).astype(float)
            except (TypeError, ValueError):  # written for one number at a time
                value = np.vectorize(self.function, otypes=[float])(*variables)
                return np.broadcast_to(value, shape).astype(float)


@dataclass(frozen=True, eq=False)
class Random:
    """A random reward: ``outcomes`` (M,), and ``probabilities[j, m]`` of outcome m at the j-th listed point."""

    outcomes: Floats
    probabilities: Floats


Arm = Table | Formula | Function | Random


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
        checked = _check_arms(latent, arms, found)
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

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.arms)

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
            return self.names.index(arm)
        if isinstance(arm, (int, np.integer)) and not isinstance(arm, bool) and 0 <= arm < len(self.arms):
            return int(arm)
        listing = ", ".join(self.names[:20]) + (", …" if len(self.arms) > 20 else "")
        raise ProblemError(f"{field}: got {shown(arm)}; expected one of {listing}")

    @cached_property
    def deterministic(self) -> bool:
        return not any(isinstance(arm, Random) for arm in self.arms.values())

    @cached_property
    def rewards(self) -> Floats:
        """``g[k, j]``: arm k's (expected) reward at the j-th listed point, shape (K, J). Listed supports only."""
        assert not isinstance(self.latent, Continuous)
        if not listed(self.latent) or len(self.arms) * self.latent.size > MAX_CELLS:
            raise SizeError(
                f"listing the support needs {len(self.arms)} arms × {_count(self.latent)} points; at most {MAX_CELLS:,} "
                "rewards are tabulated. Use fewer values per component, or arms that are sums over components."
            )
        out = np.empty((len(self.arms), self.latent.size))
        for k, arm in enumerate(self.arms.values()):
            out[k] = _tabulate(arm, self.latent)
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
        """Identity: a hash of support, arms and range; and the distribution with the name."""
        body = self.to_dict(functions=True)
        extra = {key: body["latent"].pop(key, None) for key in ("probabilities", "distribution")}
        extra["name"] = body.pop("name", "")
        canonical = json.dumps(body, sort_keys=False, ensure_ascii=True, default=str)
        return hashlib.sha256(canonical.encode()).digest(), json.dumps(extra, sort_keys=True)

    def to_dict(self, *, functions: bool = False) -> dict[str, Any]:
        """The problem in the shape of a problem file. Python functions cannot be written down and are refused."""
        out: dict[str, Any] = {"name": self.name} if self.name else {}
        if self.reward_range is not None:
            out["reward_range"] = self.reward_range
        out["latent"] = {"kind": self.latent.kind, **_latent_body(self.latent)}
        if self.distribution is not None:
            out["latent"].update(self.distribution.spec(self.latent))
        out["arms"] = {name: _arm_body(name, arm, self.latent, functions) for name, arm in self.arms.items()}
        return out

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
        return {"values": [_plain(v) if not isinstance(v, str) else v for v in latent.values]}
    if isinstance(latent, Continuous):
        return {"support": [_plain(v) for v in latent.support]}
    parts: dict[str, Any] = {}
    for name, part in latent.components:
        parts[name] = {"low": part.low, "high": part.high} if isinstance(part, Interval) else [_plain(v) for v in part]
    return {"components": parts}


def _plain(value: float) -> float | int:
    """Whole numbers as integers, as a person would write them."""
    return int(value) if math.isfinite(value) and value == int(value) and abs(value) < 1e15 else float(value)


def _arm_body(name: str, arm: Arm, latent: Latent, functions: bool) -> Any:
    if isinstance(arm, Formula):
        return arm.expression.text
    if isinstance(arm, Function):
        if not functions:
            raise ProblemError(f"arms.{name}: a Python function cannot be written to a file; write it as an expression")
        return f"function {id(arm.function)}"
    assert not isinstance(latent, Continuous)
    if isinstance(arm, Random):
        rows = arm.probabilities.reshape(*latent.shape, len(arm.outcomes))
        return {"outcomes": [_plain(v) for v in arm.outcomes], "probabilities": rows.tolist()}
    return np.vectorize(_plain, otypes=[object])(arm.rewards.reshape(latent.shape)).tolist()


def _count(latent: Latent) -> str:
    assert not isinstance(latent, Continuous)
    return f"{latent.size:,}" if latent.size < 1e15 else f"{float(latent.size):.3g}" if latent.size < 1e300 else "countless"


def _tabulate(arm: Arm, latent: Discrete | Vector) -> Floats:
    if isinstance(arm, Table):
        return arm.rewards
    if isinstance(arm, Random):
        return np.asarray(arm.probabilities @ arm.outcomes)
    evaluate = arm.expression if isinstance(arm, Formula) else arm
    return evaluate(*latent.points)


def check_outline(arms: Any, reward_range: Any, found: Complaints) -> None:
    """Complain about all that can be told without knowing X: how many arms, their names, the reward range."""
    if not isinstance(arms, Mapping):
        found.add("arms", arms, "a table of at least two arms")
    else:
        if len(arms) < 2:
            found.say(f"arms: got {len(arms)}; expected at least two")
        for name in arms:
            if not _good_name(name):
                found.add("arms", name, "a name of 1 to 200 printable characters")
    if reward_range is not None:
        width = number("reward_range", reward_range, found, "a number above 0")
        if width is not None and width <= 0:
            found.add("reward_range", reward_range, "a number above 0")


def _good_name(name: Any) -> bool:
    return isinstance(name, str) and bool(name.strip()) and len(name) <= 200 and name.isprintable()


def _check_arms(latent: Latent, arms: Any, found: Complaints) -> dict[str, Arm]:
    out: dict[str, Arm] = {}
    for name, given in arms.items() if isinstance(arms, Mapping) else ():
        arm = _check_arm(f"arms.{name}", given, latent, found) if _good_name(name) else None
        if arm is not None:
            out[name] = arm
    return out


def _check_arm(place: str, given: Any, latent: Latent, found: Complaints) -> Arm | None:
    given = _unread(given, latent)
    if isinstance(given, str):
        return _check_formula(place, given, latent, found)
    if callable(given):
        return _check_function(place, Function(given), latent, found)
    if not isinstance(latent, Discrete) and not listed(latent):
        found.add(place, given, 'an expression such as "1 - exp(-2*x)": a table needs a support that can be listed')
        return None
    assert not isinstance(latent, Continuous)
    if isinstance(given, Mapping):
        return _check_random(place, given, latent, found)
    return _check_table(place, table(place, given, latent.shape, found, of="rewards, one per latent value"), found)


def _unread(given: Any, latent: Latent) -> Any:
    """An arm of another problem, as it was written: this one may have another support."""
    if isinstance(given, Formula):
        return given.expression.text
    if isinstance(given, Function):
        return given.function
    if not isinstance(given, (Table, Random)) or isinstance(latent, Continuous):
        return given
    body = given.rewards if isinstance(given, Table) else given.probabilities
    shape = (*latent.shape, *body.shape[1:])
    body = body.reshape(shape) if body.size == math.prod(shape) else body
    return body if isinstance(given, Table) else {"outcomes": given.outcomes, "probabilities": body}


def _check_table(place: str, rewards: Floats, found: Complaints) -> Table:
    for j in np.flatnonzero(abs(rewards) > MAX_REWARD)[:1]:
        found.add(f"{place}[{j}]", float(rewards[j]), f"a reward within ±{MAX_REWARD:g}")
    return Table(rewards)


def _check_random(place: str, given: Mapping[str, Any], latent: Discrete | Vector, found: Complaints) -> Random | None:
    if set(given) != {"outcomes", "probabilities"}:
        found.add(place, sorted(map(str, given)), "the keys outcomes and probabilities")
        return None
    outcomes = numbers(f"{place}.outcomes", given["outcomes"], found)
    if len(outcomes) == 0 or len(np.unique(outcomes)) != len(outcomes):
        found.add(f"{place}.outcomes", given["outcomes"], "at least one outcome, each once")
        return None
    shape = (*latent.shape, len(outcomes))
    before = len(found.lines)
    rows = table(f"{place}.probabilities", given["probabilities"], shape, found, of="probabilities").reshape(-1, shape[-1])
    if len(found.lines) == before:
        rows = np.stack([probabilities(f"{place}.probabilities[{j}]", row, found) for j, row in enumerate(rows)])
    return Random(outcomes, rows)


def _check_formula(place: str, text: str, latent: Latent, found: Complaints) -> Arm | None:
    if not latent.names:
        found.add(place, text, "a list of rewards: expressions need numeric latent values, and these are labels")
        return None
    try:
        formula = Formula(parse(text, latent.names))
    except ExpressionError as error:
        found.say(f"{place}: {error}; got {shown(text)}")
        return None
    return formula if _check_finite(place, formula.expression, latent, found) else None


def _check_function(place: str, function: Function, latent: Latent, found: Complaints) -> Arm | None:
    try:
        if listed(latent):
            assert not isinstance(latent, Continuous)
            return _check_table(place, numbers(place, function(*latent.points), found, count=latent.size), found)
        fine = _check_finite(place, function, latent, found)
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything; it is theirs to mend
        found.say(f"{place}: the function raised {type(error).__name__}: {error}")
        return None
    return function if fine else None


def _check_finite(place: str, evaluate: Callable[..., Floats], latent: Latent, found: Complaints) -> bool:
    """Complain about a value that is not finite. Intervals are probed here, and proved finite when they are compiled."""
    points = latent.points if not isinstance(latent, Continuous) and listed(latent) else probes(latent)
    values = evaluate(*points)
    bad = ~(abs(values) <= MAX_REWARD)
    if bad.any():
        i = int(np.argmax(bad))
        at = ", ".join(f"{n} = {points[d, i]:g}" for d, n in enumerate(latent.names))
        found.say(
            f"{place}: the reward at {at} is {values[i]:g}; "
            f"expected a finite number, within ±{MAX_REWARD:g}, everywhere on the support"
        )
    return not bad.any()


def probes(latent: Latent, count: int = 257) -> Floats:
    """Points spread over a support that is not listed, ends included, shape (d, n). Deterministic."""
    if isinstance(latent, Continuous):
        return spread(*latent.support, np.linspace(0, 1, count))[None]
    assert isinstance(latent, Vector)
    steps = np.arange(count)
    out = []
    for d, part in enumerate(latent.parts):
        u = (steps * math.sqrt(d + 2)) % 1.0  # irrational strides: no two components move together
        u[0], u[1] = 0.0, 1.0
        if isinstance(part, Interval):
            out.append(spread(part.low, part.high, u))
        else:
            out.append(np.array(part)[np.minimum((u * len(part)).astype(int), len(part) - 1)])
    return np.stack(out)


FAR = 1e60
"""Where functions are evaluated for an infinite end: beyond it they are only bounded, never evaluated."""


def spread(low: float, high: float, u: NDArray[np.floating[Any]]) -> Floats:
    """Map [0, 1] onto [low, high] increasingly, an infinite end becoming ``FAR``.

    >>> spread(0, math.inf, np.array([0.0, 0.5, 1.0]))
    array([0.e+00, 1.e+00, 1.e+60])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if math.isinf(low) and math.isinf(high):
            x = np.where(u == 0.5, 0.0, (2 * u - 1) / (1 - abs(2 * u - 1)))
        elif math.isinf(high):
            x = np.asarray(low + u / (1 - u))
        elif math.isinf(low):
            x = np.asarray(high - (1 - u) / u)
        else:
            x = low + u * (high - low)
    return np.clip(x, max(low, -FAR), min(high, FAR))
