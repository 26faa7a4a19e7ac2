"""Stored policies: reading a state back, and adding one to another. Nothing is changed unless all of it is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Ints
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.policies import kernel
from headwater.policies.rules import make_spec
from headwater.problem import Problem
from headwater.pseudo import TOLERANCE

if TYPE_CHECKING:
    from headwater.policies.live import Policy


MOST = 2**31 - 1
"""The largest count that is believed: times a reward in units, below 2**31, it is an exact sum."""


def from_state(state: Mapping[str, Any], problem: Problem) -> Policy:
    """A policy that goes on exactly where the stored one stopped."""
    from headwater.policies.live import Policy

    _check_frame(state)
    policy = state.get("policy")
    if not isinstance(policy, Mapping) or "name" not in policy:
        raise ProblemError(f"state.policy: got {shown(policy)}; expected the policy's name and options")
    options = {str(key): value for key, value in policy.items() if key != "name"}
    fresh = Policy(
        make_spec(policy["name"], **options),
        problem,
        reward_range=state.get("reward_range") or None,  # 0 where no arm's reward varies, which is the default there
        seed=_whole(state, "seed", 2**64 - 1),
        replication=_whole(state, "replication", 2**48 - 1),
        tolerance=state.get("tolerance", TOLERANCE),
    )
    add_state(fresh, state)
    return fresh


def add_state(policy: Policy, state: Mapping[str, Any]) -> None:
    """Add a state's counts to a policy's, after checking that both are of the same policy on the same problem."""
    _check_frame(state)
    same = {"problem": policy.problem.digest, "policy": policy.spec.to_dict(), "reward_range": policy.scale}
    for key, mine in same.items():
        if state.get(key) != mine:
            raise ProblemError(
                f"state.{key}: got {shown(state.get(key))}; expected {shown(mine)}, as of the policy it is added to"
            )
    names = policy.names
    seen = policy.seen * 0
    successes, pending = _by_arm(state, "successes", names), _by_arm(state, "pending", names)
    if policy.table is None:
        pulls, total = _by_arm(state, "pulls", names), _by_arm(state, "total", names, signed=True)
        rows = state.get("sums")
        if not isinstance(rows, Mapping):
            raise ProblemError(f"state.sums: got {shown(rows)}; expected a row for each arm")
        sums = np.stack([_by_arm(rows, name, names, signed=True) for name in names])
    else:
        seen = _level_counts(policy, state)
        # everything else follows from the counts, exactly
        pulls, total = seen.sum(axis=1), (seen * policy.cells[:, :, -1]).sum(axis=1)
        sums = np.einsum("km,kml->kl", seen, policy.cells[:, :, :-1]) if policy.spec.reference != "none" else policy.sums * 0
    _check_learned(policy, pulls, total, sums, successes)
    policy.seen += seen
    policy.counts[kernel.PULLS] += pulls
    policy.counts[kernel.TOTAL] += total
    policy.counts[kernel.SUCCESSES] += successes
    policy.sums += sums
    policy.pending = [a + int(b) for a, b in zip(policy.pending, pending, strict=True)]
    policy.waiting += int(pending.sum())
    policy.meta[kernel.ROUND] += int(pulls.sum())
    policy.forget_choice()
    kernel.derive(policy.meta, policy.params, policy.counts, policy.mean, policy.root)


def _check_learned(policy: Policy, pulls: Ints, total: Ints, sums: Ints, successes: Ints) -> None:
    """Refuse numbers that no rewards can have added up to."""
    ranges = policy.model.ranges / policy.units.unit
    for k, name in enumerate(policy.names):
        low, high = ranges[k] * float(pulls[k])
        slack = float(pulls[k]) * (1 + 1e-9 * float(np.max(abs(ranges[k]))))
        if not low - slack <= total[k] <= high + slack or sums[k, k] or (pulls[k] == 0 and sums[k].any()):
            raise ProblemError(f"state.total.{name}: got {total[k]}; expected what {pulls[k]} pulls of the arm can pay")
        if successes[k] > pulls[k]:
            raise ProblemError(f"state.successes.{name}: got {successes[k]}; expected at most its {pulls[k]} pulls")


def _check_frame(state: object) -> None:
    if not isinstance(state, Mapping) or state.get("format") != "headwater-policy":
        raise ProblemError('state: expected a stored policy ("format": "headwater-policy")')
    if state.get("version") != 1:
        raise ProblemError(f"state.version: got {shown(state.get('version'))}; expected 1, which is what this release reads")


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
    counts = state.get("counts")
    if not isinstance(counts, Mapping) or set(counts) != set(policy.names):
        raise ProblemError(f"state.counts: got {shown(counts)}; expected a list for each arm")
    seen = np.zeros_like(policy.seen)
    for k, name in enumerate(policy.names):
        try:
            for reward, n in counts[name]:
                seen[k, policy._level(k, reward)] += _whole({"counts": n}, "counts", MOST)
        except (TypeError, ValueError):
            raise ProblemError(
                f"state.counts.{name}: got {shown(counts[name])}; expected pairs of a reward and a count"
            ) from None
    return seen
