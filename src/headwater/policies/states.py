"""Stored policies: reading a state back, and adding one to another. Nothing is changed unless all of it is right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headwater import native
from headwater.arrays import Bools, Floats, Ints
from headwater.complaints import is_number, shown
from headwater.errors import ProblemError
from headwater.policies.many import Many
from headwater.policies.rules import Spec, stored_spec
from headwater.problem import Problem
from headwater.pseudo import TOLERANCE

if TYPE_CHECKING:
    from headwater.policies.live import Policy


VERSIONS = (1, 2)
WORD = 31
"""Bits of the lower word of a sum of squares: see native/state.h."""
MOST = 2**31 - 1
"""The largest count that is believed: times a reward in units, below 2**31, it is an exact sum."""


def from_state(state: Mapping[str, Any], problem: Problem) -> Policy:
    """A policy that goes on exactly where the stored one stopped."""
    from headwater.policies.live import Policy

    _check_frame(state)
    fresh = Policy(
        _spec(state),
        problem,
        reward_range=state.get("reward_range") or None,  # 0 where no arm's reward varies, which is the default there
        seed=_whole(state, "seed", 2**64 - 1),
        replication=_whole(state, "replication", 2**48 - 1),
        tolerance=state.get("tolerance", TOLERANCE),
    )
    add_state(fresh, state)
    fresh.hush()
    return fresh


def add_state(policy: Policy, state: Mapping[str, Any]) -> None:
    """Add a state's counts to a policy's, after checking that both are of the same policy on the same problem."""
    _check_frame(state)
    spec = _spec(state).to_dict()
    same: dict[str, tuple[object, object]] = {
        "problem": (state.get("problem"), policy.problem.digest),
        "policy": (spec, policy.spec.to_dict()),
        "reward_range": (state.get("reward_range"), policy.scale),
    }
    for key, (theirs, mine) in same.items():
        if theirs != mine:
            raise ProblemError(f"state.{key}: got {shown(theirs)}; expected {shown(mine)}, as of the policy it is added to")
    if policy.many is not None:
        _add_many(policy, policy.many, state)
        return
    names = policy.names
    squares = [0] * len(names)
    seen = policy.seen * 0
    successes, pending = _by_arm(state, "successes", names), _by_arm(state, "pending", names)
    if policy.table is None:
        pulls, total = _by_arm(state, "pulls", names), _by_arm(state, "total", names, signed=True)
        rows = state.get("sums")
        if not isinstance(rows, Mapping):
            raise ProblemError(f"state.sums: got {shown(rows)}; expected a row for each arm")
        sums = np.stack([_by_arm(rows, name, names, signed=True) for name in names])
        if policy.spec.learns:
            seen = _bin_counts(policy, state, pulls)
        if policy._estimates:
            squares = _squares(policy, state, pulls, total)
    else:
        seen = _level_counts(policy, state)
        # everything else follows from the counts, exactly
        paid = policy.cells[:, :, -1]
        pulls, total = seen.sum(axis=1), (seen * paid).sum(axis=1)
        sums = np.einsum("km,kml->kl", seen, policy.cells[:, :, :-1])
        if policy._estimates:
            squares = [_squared(times, rewards) for times, rewards in zip(seen.tolist(), paid.tolist(), strict=True)]
    _check_learned(policy, pulls, total, sums, successes)
    doubted = _doubted(policy, state, pulls)
    course = _course(policy, state, seen) if policy.spec.learns else None
    fresh = policy.rounds == 0
    policy.seen[:] += seen
    if policy.sums.size:
        policy.sums[:] += sums
    _count(policy, pulls, total, successes, pending, squares)
    if policy.spec.learns:
        policy._native.doubt(doubted | np.isin(np.arange(len(names)), policy._native.doubted()))
    policy._native.rebuild()
    if fresh and course is not None:  # two replicas' courses cannot be added
        policy._native.follow(course.law, course.prepared, *course.held)


def _add_many(policy: Policy, many: Many, state: Mapping[str, Any]) -> None:
    """As ``add_state``, where there are very many arms and rewards: the counts are all that is kept of them."""
    names = policy.names
    successes, pending = _by_arm(state, "successes", names), _by_arm(state, "pending", names)
    found = [(k, atom, n) for k, atom, n in _pairs(policy, state) if n]
    pulls, total = np.zeros(len(names), dtype=np.int64), np.zeros(len(names), dtype=np.int64)
    squares = [0] * len(names)
    for k, atom, n in found:
        pulls[k] += n
        total[k] += n * many.units(k, atom)
        squares[k] += n * many.units(k, atom) ** 2 if policy._estimates else 0
    _check_learned(policy, pulls, total, None, successes)
    for k, atom, n in found:
        policy._native.count(k, atom, n)
    _count(policy, pulls, total, successes, pending, squares)
    policy._native.rebuild()


def _count(policy: Policy, pulls: Ints, total: Ints, successes: Ints, pending: Ints, squares: list[int]) -> None:
    known = policy.known
    both = [a + b for a, b in zip(sums_of_squares(known.squares, known.rest), squares, strict=True)]
    known.squares[:] = [x >> WORD for x in both]
    known.rest[:] = [x & (2**WORD - 1) for x in both]
    known.pulls[:] += pulls
    known.total[:] += total
    known.successes[:] += successes
    known.pending[:] += pending
    policy._native.rounds += int(pulls.sum())


def sums_of_squares(squares: Ints, rest: Ints) -> list[int]:
    """Each arm's sum of squared rewards, in units, from its two words: more than 64 bits where they are large."""
    return [(high << WORD) + low for high, low in zip(squares.tolist(), rest.tolist(), strict=True)]


def _squared(times: list[int], rewards: list[int]) -> int:
    """The sum of squares of rewards that came so many times; Python's whole numbers do not overflow."""
    return sum(n * r * r for n, r in zip(times, rewards, strict=True))


def _squares(policy: Policy, state: Mapping[str, Any], pulls: Ints, total: Ints) -> list[int]:
    """The stored sums of squared rewards; refuses what no rewards of these numbers and totals can have added up to."""
    given = state.get("squares")
    if not isinstance(given, Mapping) or set(given) != set(policy.names):
        raise ProblemError(f"state.squares: got {shown(given)}; expected one number for each of {', '.join(policy.names[:10])}")
    ranges, out = policy.model.ranges / policy.units.unit, []
    for k, name in enumerate(policy.names):
        x, n, t = _whole(given, name, 2**93), int(pulls[k]), int(total[k])
        low, high = math.floor(ranges[k][0]) - 1, math.ceil(ranges[k][1]) + 1  # (r - low)(high - r) >= 0 for every reward r
        if not t * t <= n * x or x > (low + high) * t - n * low * high:
            raise ProblemError(f"state.squares.{name}: got {x}; expected what {n} rewards that sum to {t} can have")
        out.append(x)
    return out


def _check_learned(policy: Policy, pulls: Ints, total: Ints, sums: Ints | None, successes: Ints) -> None:
    """Refuse numbers that no rewards can have added up to. ``sums`` where they are stored."""
    ranges = policy.model.ranges / policy.units.unit
    for k, name in enumerate(policy.names):
        low, high = ranges[k] * float(pulls[k])
        slack = float(pulls[k]) * (1 + 1e-9 * float(np.max(abs(ranges[k]))))
        off = sums is not None and (sums[k, k] or (pulls[k] == 0 and sums[k].any()))
        if not low - slack <= total[k] <= high + slack or off:
            raise ProblemError(f"state.total.{name}: got {total[k]}; expected what {pulls[k]} pulls of the arm can pay")
        if successes[k] > pulls[k]:
            raise ProblemError(f"state.successes.{name}: got {successes[k]}; expected at most its {pulls[k]} pulls")


def _check_frame(state: object) -> None:
    if not isinstance(state, Mapping) or state.get("format") != "headwater-policy":
        raise ProblemError('state: expected a stored policy ("format": "headwater-policy")')
    if state.get("version") not in VERSIONS:
        raise ProblemError(
            f"state.version: got {shown(state.get('version'))}; expected 1 or 2, which are what this release reads"
        )


def _spec(state: Mapping[str, Any]) -> Spec:
    """The stored policy's. Version 1 left out options at the defaults that release 0.1 had; version 2 has all."""
    policy = state.get("policy")
    if not isinstance(policy, Mapping) or "name" not in policy:
        raise ProblemError(f"state.policy: got {shown(policy)}; expected the policy's name and options")
    return stored_spec(policy)


def _whole(state: Mapping[str, Any], key: str, most: int, *, least: int = 0) -> int:
    value = state.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ProblemError(f"state.{key}: got {shown(value)}; expected a whole number from {least} to {most}")
    return value


def _by_arm(state: Mapping[str, Any], key: str, names: tuple[str, ...], *, signed: bool = False) -> Ints:
    values = state.get(key)
    if not isinstance(values, Mapping) or set(values) != set(names):
        raise ProblemError(f"state.{key}: got {shown(values)}; expected one number for each of {', '.join(names[:10])}")
    least = -(2**62) if signed else 0
    return np.array([_whole(values, name, -least if signed else MOST, least=least) for name in names], dtype=np.int64)


def _level_counts(policy: Policy, state: Mapping[str, Any]) -> Ints:
    seen = np.zeros_like(policy.seen)
    for k, level, n in _pairs(policy, state):
        seen[k, level] += n
    return seen


def _pairs(policy: Policy, state: Mapping[str, Any]) -> Iterator[tuple[int, int, int]]:
    """The stored counts: an arm, its level (or the atom that stands for it), how often it paid that."""
    counts = state.get("counts")
    if not isinstance(counts, Mapping) or set(counts) != set(policy.names):
        raise ProblemError(f"state.counts: got {shown(counts)}; expected a list for each arm")
    for k, name in enumerate(policy.names):
        try:
            for reward, n in counts[name]:
                yield k, policy._level(k, reward), _whole({"counts": n}, "counts", MOST)
        except (TypeError, ValueError):
            raise ProblemError(
                f"state.counts.{name}: got {shown(counts[name])}; expected pairs of a reward and a count"
            ) from None


# What policies that learn the law of X keep beside their counts.


def stored_learner(learner: native.Live, names: tuple[str, ...], seen: Ints | None) -> dict[str, Any]:
    """JSON-ready: doubted arms; the chain of ``latent-ts`` and the counts it was prepared for; the law that ``graves-lai``
    planned for, and the arm it holds; counts by bin where X is continuous.
    """
    out: dict[str, Any] = {"doubted": [names[k] for k in learner.doubted()]}
    course = learner.course()
    if "particle" in course:
        out |= {"particle": course["particle"].tolist(), "prepared": course["prepared"].astype(int).tolist()}
    if "planned" in course:
        until, arm = course["held"]
        out |= {"planned": course["planned"].tolist(), "held": [until, names[arm]]}
    if seen is not None:
        out["bins"] = {name: seen[k].tolist() for k, name in enumerate(names)}
    return out


def _doubted(policy: Policy, state: Mapping[str, Any], pulls: Ints) -> Bools:
    given = state.get("doubted", [])
    if not isinstance(given, list) or not all(name in policy.names for name in given):
        raise ProblemError(f"state.doubted: got {shown(given)}; expected a list of arms")
    doubted = np.array([name in given for name in policy.names], dtype=bool)
    for k in np.flatnonzero(doubted & (pulls == 0)):
        raise ProblemError(f"state.doubted: got {policy.names[k]}; expected arms with rewards, which alone can be doubted")
    return doubted


def _bin_counts(policy: Policy, state: Mapping[str, Any], pulls: Ints) -> Ints:
    rows = state.get("bins")
    seen = np.zeros_like(policy.seen)
    assert policy.evidence is not None
    for k, name in enumerate(policy.names):
        row = rows.get(name) if isinstance(rows, Mapping) else None
        if not isinstance(row, list) or len(row) != seen.shape[1]:
            raise ProblemError(f"state.bins.{name}: got {shown(row)}; expected {seen.shape[1]} counts")
        seen[k] = [_whole({"bins": n}, "bins", MOST) for n in row]
        if seen[k].sum() != pulls[k]:
            raise ProblemError(f"state.bins.{name}: got {seen[k].sum()} rewards; expected its {pulls[k]} pulls")
        if seen[k, ~policy.evidence.possible(k, seen.shape[1])].any():
            raise ProblemError(f"state.bins.{name}: got {shown(row)}; expected none in bins that the arm never pays into")
    return seen


class _Course(NamedTuple):
    """Where a learner was going: of ``latent-ts`` the chain and the counts it was prepared for, of ``graves-lai`` the law it
    planned for, and until when it holds which arm."""

    law: Floats
    prepared: Floats
    held: tuple[float, int]


def _course(policy: Policy, state: Mapping[str, Any], seen: Ints) -> _Course | None:
    """A state's course, checked; None where the policy follows none."""
    assert policy.evidence is not None
    offset, points = policy.evidence.channels.offset, policy.evidence.channels.g.shape[1]
    rows, names, kind = int(offset[-1]), policy.names, policy._native.course()
    if "particle" in kind:
        law, prepared = _numbers(state, "particle", points), _numbers(state, "prepared", rows)
        _check_sum("particle", law)
        flat = np.concatenate([seen[k, :size] for k, size in enumerate(np.diff(offset))])
        if np.any(prepared > flat) or np.any(prepared != np.floor(prepared)):
            raise ProblemError(f"state.prepared: got {shown(state['prepared'])}; expected whole numbers up to the counts")
        return _Course(law, prepared, (0.0, 0))
    if "planned" not in kind:
        return None
    law = _numbers(state, "planned", points)
    if law.any():
        _check_sum("planned", law)
    given, rounds = state.get("held"), float(seen.sum())
    if not isinstance(given, list) or len(given) != 2 or not is_number(given[0]) or given[1] not in names:
        raise ProblemError(f"state.held: got {shown(given)}; expected a round and an arm")
    if not 0 <= given[0] <= rounds + max(1.0, 0.02 * rounds):
        raise ProblemError(f"state.held: got {shown(given[0])}; expected a round soon after its {rounds:.0f} rewards")
    return _Course(law, np.zeros(rows), (float(given[0]), names.index(given[1])))


def _numbers(state: Mapping[str, Any], key: str, size: int) -> Floats:
    given = state.get(key)
    if not isinstance(given, list) or len(given) != size or not all(is_number(x) and 0 <= x <= MOST for x in given):
        raise ProblemError(f"state.{key}: got {shown(given)}; expected {size} numbers >= 0")
    return np.array(given, dtype=float)


def _check_sum(key: str, law: Floats) -> None:
    if not abs(float(law.sum()) - 1) < 1e-6:
        raise ProblemError(f"state.{key}: got numbers that sum to {law.sum():g}; expected 1")
