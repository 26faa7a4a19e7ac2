"""Stored policies: reading a state back, and adding one to another. Nothing is changed unless all of it is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Ints
from headwater.complaints import is_number, shown
from headwater.errors import ProblemError
from headwater.policies import evidence, kernel, sampler
from headwater.policies.evidence import Learner
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
    doubted = _doubted(policy, state)
    successes, pending = _by_arm(state, "successes", names), _by_arm(state, "pending", names)
    if policy.table is None:
        pulls, total = _by_arm(state, "pulls", names), _by_arm(state, "total", names, signed=True)
        rows = state.get("sums")
        if not isinstance(rows, Mapping):
            raise ProblemError(f"state.sums: got {shown(rows)}; expected a row for each arm")
        sums = np.stack([_by_arm(rows, name, names, signed=True) for name in names])
        if policy.learner is not None:
            seen = _bin_counts(policy, state, pulls)
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
    if policy.learner is not None:
        policy.learner.mind.doubted[:] |= doubted
        evidence.recall(policy.learner, policy.seen)
        _restore_chain(policy.learner, state)
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


# What policies that learn the law of X keep beside their counts.


def stored_learner(learner: Learner, names: tuple[str, ...], seen: Ints | None) -> dict[str, Any]:
    """JSON-ready: doubted arms; the chain of ``latent-ts`` and the counts it was prepared for; counts by bin where X is
    continuous.
    """
    out: dict[str, Any] = {"doubted": [names[k] for k in np.flatnonzero(learner.mind.doubted)]}
    if len(learner.chain) > 1:
        prepared = sampler.prepared_counts(learner.chain, len(learner.particle), len(learner.mind.n))
        out |= {"particle": learner.particle.tolist(), "prepared": prepared.astype(int).tolist()}
    if seen is not None:
        out["bins"] = {name: seen[k].tolist() for k, name in enumerate(names)}
    return out


def _doubted(policy: Policy, state: Mapping[str, Any]) -> Ints:
    given = state.get("doubted", [])
    if not isinstance(given, list) or not all(name in policy.names for name in given):
        raise ProblemError(f"state.doubted: got {shown(given)}; expected a list of arms")
    return np.array([name in given for name in policy.names], dtype=np.int64)


def _bin_counts(policy: Policy, state: Mapping[str, Any], pulls: Ints) -> Ints:
    rows = state.get("bins")
    seen = np.zeros_like(policy.seen)
    for k, name in enumerate(policy.names):
        row = rows.get(name) if isinstance(rows, Mapping) else None
        if not isinstance(row, list) or len(row) != seen.shape[1]:
            raise ProblemError(f"state.bins.{name}: got {shown(row)}; expected {seen.shape[1]} counts")
        seen[k] = [_whole({"bins": n}, "bins", MOST) for n in row]
        if seen[k].sum() != pulls[k]:
            raise ProblemError(f"state.bins.{name}: got {seen[k].sum()} rewards; expected its {pulls[k]} pulls")
    return seen


def _restore_chain(learner: Learner, state: Mapping[str, Any]) -> None:
    """Take over a stored chain, unless this one has moved already: two replicas' chains cannot be added."""
    if len(learner.chain) == 1 or learner.chain.any():
        return
    for key, target in (("particle", learner.particle), ("prepared", np.zeros(len(learner.mind.n)))):
        given = state.get(key)
        if not isinstance(given, list) or len(given) != len(target) or not all(is_number(x) and x >= 0 for x in given):
            raise ProblemError(f"state.{key}: got {shown(given)}; expected {len(target)} numbers >= 0")
        target[:] = given
    if not abs(float(learner.particle.sum()) - 1) < 1e-6:
        raise ProblemError(f"state.particle: got numbers that sum to {learner.particle.sum():g}; expected 1")
    if target.any():
        lens = learner.lens
        sampler.prepare(lens.start, lens.row, lens.weight, target, float(learner.knobs[evidence.PRIOR]), learner.chain)
