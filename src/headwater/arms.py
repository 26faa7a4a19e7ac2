"""What an arm may be, read and checked: a table, an expression, a Python function, or a random reward (a channel)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import SAME, Floats
from headwater.complaints import Complaints, is_frozen, number, numbers, probabilities, shown, table
from headwater.errors import ExpressionError, ProblemError
from headwater.expressions import Expression, parse
from headwater.latent import Continuous, Discrete, Interval, Latent, Vector, listed
from headwater.noise import Noise, add_noise, read_bins, read_noise

MAX_REWARD = 1e300
"""The largest magnitude of a reward: the difference of two must not overflow."""
MAX_ENTRIES = 40_000_000
"""Points × outcomes of a random reward: 0.3 GB of probabilities."""
_RANDOM = {"outcomes", "probabilities", "edges", "observations", "mean_high"}


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


class Noisy(NamedTuple):
    """A random reward as it was written: ``reward`` plus ``noise``, on ``bins`` where the law is continuous."""

    reward: Table | Formula
    noise: Noise
    bins: int | None


@dataclass(frozen=True, eq=False)
class Random:
    """A random reward: ``outcomes`` (M,), and ``probabilities[j, m]`` of outcome m at the j-th listed point.

    An observed reward within ``width`` of an outcome counts as that outcome: outcomes of noise with a continuous law are the
    middles of bins. With ``edges`` (M - 1,) every reward counts as an outcome: the m-th from ``edges[m - 1]`` to below
    ``edges[m]``; outcomes learned from data are the means of such bins. ``observations`` (J,) says on how many rewards each row
    of probabilities rests, None that it is known; ``mean_high`` (J,) what each mean is at most, as far as those rewards tell.
    ``rounding`` is the most by which bins move a point's mean. ``written`` is set when it was given as a reward plus noise. A
    problem never holds one that is known and whose rows are all zeros and ones, bins and edges aside: that is a
    :class:`Table`, and has a table's digest.
    """

    outcomes: Floats
    probabilities: Floats
    width: float = 0.0
    rounding: float = 0.0
    written: Noisy | None = None
    edges: Floats | None = None
    observations: Floats | None = None
    mean_high: Floats | None = None


Arm = Table | Formula | Function | Random


def plain(value: float) -> float | int:
    """Whole numbers as integers, as a person would write them."""
    return int(value) if math.isfinite(value) and value == int(value) and abs(value) < 1e15 else float(value)


def arm_text(name: str, arm: Arm, latent: Latent) -> str:
    """An arm as a line of JSON, to tell problems apart by; for a large table quicker than ``arm_body``."""
    if isinstance(arm, Function):
        return json.dumps(f"function {id(arm.function)}")
    if isinstance(arm, Table) and isinstance(latent, Discrete):
        value, at = np.unique(arm.rewards, return_inverse=True)
        words = np.array([json.dumps(plain(v)) for v in value.tolist()], dtype=object)
        return f"[{', '.join(words[at].tolist())}]"
    return json.dumps(arm_body(name, arm, latent), default=str)


def arm_body(name: str, arm: Arm, latent: Latent) -> Any:
    """An arm in the shape of a problem file."""
    if isinstance(arm, Formula):
        return arm.expression.text
    if isinstance(arm, Function):
        raise ProblemError(f"arms.{name}: a Python function cannot be written to a file; write it as an expression")
    assert not isinstance(latent, Continuous)
    if isinstance(arm, Table):
        return np.vectorize(plain, otypes=[object])(arm.rewards.reshape(latent.shape)).tolist()
    if arm.written is not None:
        reward, noise, bins = arm.written
        spec = {key: _plain_entry(value) for key, value in noise.spec().items()}
        return {"reward": arm_body(name, reward, latent), "noise": spec} | ({} if bins is None else {"bins": bins})
    rows = arm.probabilities.reshape(*latent.shape, len(arm.outcomes))
    out: dict[str, Any] = {"outcomes": [plain(v) for v in arm.outcomes]}
    if arm.edges is not None:
        out["edges"] = [plain(v) for v in arm.edges]
    for key, value in (("observations", arm.observations), ("mean_high", arm.mean_high)):
        if value is not None:
            out[key] = _plain_entry(value.reshape(latent.shape).tolist())
    return {**out, "probabilities": rows.tolist()}


def _plain_entry(value: Any) -> Any:
    return [_plain_entry(v) for v in value] if isinstance(value, list) else value if isinstance(value, str) else plain(value)


def tabulate(arm: Arm, latent: Discrete | Vector) -> Floats:
    """The (expected) reward at each listed point, (J,)."""
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


def check_arms(latent: Latent, arms: Any, found: Complaints) -> dict[str, Arm]:
    """Read what a user gave as the arms, complaining about everything that is wrong with any.

    Tables become rows of one matrix, so that they stand in memory once; rows that nobody can change stay where they are.
    """
    out: dict[str, Arm] = {}
    shelf = np.empty((0, 0))
    for k, (name, given) in enumerate(arms.items() if isinstance(arms, Mapping) else ()):
        arm = _check_arm(f"arms.{name}", given, latent, found) if _good_name(name) else None
        if isinstance(arm, Table) and not is_frozen(arm.rewards):
            if not shelf.size:
                shelf = np.empty((len(arms), len(arm.rewards)))  # the system gives memory for what is written only
            shelf[k] = arm.rewards
            arm = Table(shelf[k])
        if arm is not None:
            out[name] = arm
    shelf.setflags(write=False)
    return {name: Table(_read_only(arm.rewards)) if isinstance(arm, Table) else arm for name, arm in out.items()}


def _read_only(row: Floats) -> Floats:
    row.setflags(write=False)
    return row


def as_matrix(arms: Iterable[Arm]) -> Floats | None:
    """The tables as the one matrix (K, J) that they are the rows of, without copying; None if they are not."""
    rows = [arm.rewards for arm in arms if isinstance(arm, Table)]
    owner, size = rows[0].base if rows else None, len(rows[0]) if rows else 0
    first = _address(rows[0]) if rows else 0
    for k, row in enumerate(rows):
        if owner is None or row.base is not owner or len(row) != size or _address(row) != first + k * row.nbytes:
            return None
    if not rows:
        return None
    return np.lib.stride_tricks.as_strided(rows[0], (len(rows), size), (rows[0].nbytes, 8), writeable=False)


def _address(row: Floats) -> int:
    return int(row.__array_interface__["data"][0])


def _check_arm(place: str, given: Any, latent: Latent, found: Complaints) -> Arm | None:
    given = _unread(given, latent)
    if isinstance(given, str):
        return _check_formula(place, given, latent, found)
    if callable(given):
        return _check_function(place, Function(given), latent, found)
    if isinstance(given, Mapping):
        return _check_mapping(place, given, latent, found)
    if not listed(latent):
        found.add(place, given, 'an expression such as "1 - exp(-2*x)": a table needs a support that can be listed')
        return None
    assert not isinstance(latent, Continuous)
    return _check_table(place, table(place, given, latent.shape, found, of="rewards, one per latent value"), found)


def _unread(given: Any, latent: Latent) -> Any:
    """An arm of another problem, as it was written: this one may have another support."""
    if isinstance(given, Formula):
        return given.expression.text
    if isinstance(given, Function):
        return given.function
    if isinstance(given, Random) and given.written is not None:
        reward, noise, bins = given.written
        return {"reward": _unread(reward, latent), "noise": noise.spec()} | ({} if bins is None else {"bins": bins})
    if not isinstance(given, (Table, Random)) or isinstance(latent, Continuous):
        return given if not isinstance(given, Random) else _spec(given, given.probabilities)
    body = given.rewards if isinstance(given, Table) else given.probabilities
    shape = (*latent.shape, *body.shape[1:])
    body = body.reshape(shape) if body.size == math.prod(shape) else body
    return body if isinstance(given, Table) else _spec(given, body)


def _spec(arm: Random, rows: Floats) -> dict[str, Any]:
    out = {"outcomes": arm.outcomes, "probabilities": rows, "edges": arm.edges}
    out |= {"observations": arm.observations, "mean_high": arm.mean_high}
    return {key: value for key, value in out.items() if value is not None}


def _check_table(place: str, rewards: Floats, found: Complaints) -> Table:
    for j in np.flatnonzero(abs(rewards) > MAX_REWARD)[:1]:
        found.add(f"{place}[{j}]", float(rewards[j]), f"a reward within ±{MAX_REWARD:g}")
    return Table(rewards)


def _check_mapping(place: str, given: Mapping[str, Any], latent: Latent, found: Complaints) -> Arm | None:
    if not listed(latent):
        found.say(
            f"{place}: a random reward needs a support that can be listed, and {latent.kind} X is not; give X as finitely "
            'many values, or write the arm as an expression such as "1 - exp(-2*x)"'
        )
        return None
    assert not isinstance(latent, Continuous)
    if {"outcomes", "probabilities"} <= set(given) <= _RANDOM:
        arm = _check_random(place, given, latent, found)
    elif {"reward", "noise"} <= set(given) <= {"reward", "noise", "bins"}:
        arm = _check_noisy(place, given, latent, found)
    else:
        found.add(
            place,
            sorted(map(str, given)),
            "the keys outcomes and probabilities (and edges, observations, mean_high), or reward and noise (and bins)",
        )
        return None
    if (
        arm is None
        or arm.width
        or arm.edges is not None
        or arm.observations is not None
        or not np.all((arm.probabilities == 0) | (arm.probabilities == 1))
    ):
        return arm
    return Table(arm.outcomes[np.argmax(arm.probabilities, axis=1)])


def _check_random(place: str, given: Mapping[str, Any], latent: Discrete | Vector, found: Complaints) -> Random | None:
    outcomes = numbers(f"{place}.outcomes", given["outcomes"], found)
    if len(outcomes) == 0 or len(np.unique(outcomes)) != len(outcomes):
        found.add(f"{place}.outcomes", given["outcomes"], "at least one outcome, each once")
        return None
    if not _check_size(place, latent, len(outcomes), found):
        return None
    _check_table(f"{place}.outcomes", outcomes, found)
    shape = (*latent.shape, len(outcomes))
    before = len(found.lines)
    rows = table(f"{place}.probabilities", given["probabilities"], shape, found, of="probabilities").reshape(-1, shape[-1])
    if len(found.lines) == before:
        rows = np.stack([probabilities(f"{place}.probabilities[{j}]", row, found) for j, row in enumerate(rows)])
    edges = _check_edges(place, given["edges"], outcomes, found) if "edges" in given else None
    observations = _check_observations(place, given, latent, found)
    mean_high = None
    if "mean_high" in given and len(found.lines) == before:
        mean_high = _check_mean_high(place, given, rows @ outcomes, outcomes, latent, found)
    return Random(outcomes, rows, edges=edges, observations=observations, mean_high=mean_high)


def _check_mean_high(
    place: str, given: Mapping[str, Any], mean: Floats, outcomes: Floats, latent: Discrete | Vector, found: Complaints
) -> Floats:
    if "observations" not in given:
        found.say(f"{place}.mean_high: got no observations beside it; expected on how many rewards each of its entries rests")
    before = len(found.lines)
    out = table(f"{place}.mean_high", given["mean_high"], latent.shape, found, of="means").reshape(-1)
    largest, slack = float(outcomes.max()), 1e-9 * float(np.max(abs(outcomes)))  # probabilities sum to one that well
    outside = (out < mean - slack) | (out > largest + slack)
    for j in np.flatnonzero(outside)[:1] if len(found.lines) == before else ():
        expected = f"a number from the mean there, {mean[j]:g}, to the largest outcome, {largest:g}"
        found.add(f"{place}.mean_high[{j}]", float(out[j]), expected)
    return out


def _check_observations(place: str, given: Mapping[str, Any], latent: Discrete | Vector, found: Complaints) -> Floats | None:
    if "observations" not in given:
        return None
    before = len(found.lines)
    out = table(f"{place}.observations", given["observations"], latent.shape, found, of="observations").reshape(-1)
    if len(found.lines) == before and out.min() < 0:
        found.add(f"{place}.observations", given["observations"], "how many rewards each row rests on, from 0")
    return out


def _check_edges(place: str, given: Any, outcomes: Floats, found: Complaints) -> Floats:
    """Edges between the outcomes, which must ascend with them."""
    before = len(found.lines)
    edges = numbers(f"{place}.edges", given, found, count=len(outcomes) - 1, of="edges, one between every two outcomes")
    if len(found.lines) == before and not np.all((outcomes[:-1] < edges) & (edges <= outcomes[1:])):
        found.add(f"{place}.edges", given, "outcomes in ascending order and each edge between two: above one, at most the next")
    return edges


def _check_noisy(place: str, given: Mapping[str, Any], latent: Discrete | Vector, found: Complaints) -> Random | None:
    """A reward plus noise, as the channel it is."""
    before = len(found.lines)
    noise = read_noise(f"{place}.noise", given["noise"], found)
    bins = None if noise is None else read_bins(f"{place}.bins", given.get("bins"), noise, found)
    if isinstance(given["reward"], (Mapping, Random)):
        found.add(f"{place}.reward", given["reward"], "a list of rewards, an expression or a function")
        return None
    reward = _check_arm(f"{place}.reward", given["reward"], latent, found)
    if noise is None or bins is None or reward is None or len(found.lines) > before:
        return None
    assert isinstance(reward, (Table, Formula))  # on listed points a function is tabulated
    g = tabulate(reward, latent)
    if not _check_size(place, latent, len(noise.atoms[0]) if noise.listed else bins, found):
        return None
    if not noise.listed:
        width, size = noise.ends[1] - noise.ends[0], float(np.max(abs(g))) + max(map(abs, noise.ends))
        if width <= 100 * SAME * bins * size:
            found.say(f"{place}.noise: {width:g} wide, it is lost in the rounding of rewards of size {size:g}; leave it out")
            return None
    sums = add_noise(g, noise, bins)
    if not _check_size(place, latent, len(sums.outcomes), found):
        return None
    _check_table(f"{place}.noise", sums.outcomes, found)
    return Random(*sums, Noisy(reward, noise, None if noise.listed else bins))


def _check_size(place: str, latent: Discrete | Vector, outcomes: int, found: Complaints) -> bool:
    if latent.size * outcomes <= MAX_ENTRIES:
        return True
    found.say(
        f"{place}: {latent.size:,} latent values × {outcomes:,} outcomes; at most {MAX_ENTRIES:,} probabilities are kept. "
        "Use fewer of either."
    )
    return False


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
