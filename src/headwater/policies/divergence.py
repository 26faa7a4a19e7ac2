"""What a measure Q over X lets pulls of each arm tell from p: mass · KL(A_k p || A_k Q / mass), its slopes and its bend,
compiled.
"""

from __future__ import annotations

import math

import numpy as np

from headwater.arrays import Floats
from headwater.policies.compile import allocating

__all__ = ["curvature", "gradients", "pays", "used"]


@allocating
def pays(full: Floats, q: Floats, pay: Floats) -> float:
    """``pay = A Q``; returns the mass of Q."""
    for i in range(pay.size):
        pay[i] = np.dot(full[i], q)
    return float(np.sum(q))


@allocating
def used(owner: Floats, law: Floats, pay: Floats, mass: float, used: Floats) -> None:
    """Add mass · KL(A_k p || A_k Q / mass) to ``used[k]``: a (t - log(1 + t)), exact also where A_k Q is nearly a."""
    for i in range(law.size):
        k, a = int(owner[i]), mass * law[i]
        if a <= 0:
            used[k] += pay[i]
            continue
        t = (pay[i] - a) / a
        used[k] += a * (t - (math.log1p(t) if t > -0.5 else math.log(pay[i] / a)))


@allocating
def gradients(channel: Floats, owner: Floats, law: Floats, pay: Floats, mass: float, out: Floats) -> None:
    """``out[k, x]`` is the derivative of G_k by Q[x]: the sum over rows i of (1 - b_i) A_ix + (A p)_i log b_i.

    b_i is mass (A p)_i / (A Q)_i.
    """
    out[:, :] = 0.0
    for i in range(law.size):
        k, a = int(owner[i]), mass * law[i]
        slope, log = 1.0, 0.0
        if a > 0:
            t = (pay[i] - a) / a
            slope, log = t / (1 + t), math.log1p(t) if t > -0.5 else math.log(pay[i] / a)
        for x in range(out.shape[1]):
            out[k, x] += slope * channel[i, x] - law[i] * log


@allocating
def curvature(
    channel: Floats, owner: Floats, law: Floats, pay: Floats, mass: float, slack: Floats, q: Floats, e: Floats, out: Floats
) -> None:
    """The barrier's second derivative within a face, relative to Q, lower half of (J, J): 1 + Q Q' sum_k (G_k)'' / slack_k.

    Of G_k it is the sum over rows of x x' / (mass (A p)_i) with x = (A p)_i - b_i A_i, multiplied out to use zeros of A.
    """
    n, base = q.size, 0.0
    for k in range(slack.size):
        base += 1 / slack[k]
    e[:] = 0.0
    out[:, :] = 0.0
    for i in range(law.size):
        if law[i] > 0:
            share = mass * law[i] / pay[i]
            by = share / slack[int(owner[i])]
            for x in range(n):
                a = channel[i, x]
                if a > 0:
                    e[x] += by * a
                    a *= by * share / law[i]
                    for y in range(x + 1):
                        out[x, y] += a * channel[i, y]
    for x in range(n):
        for y in range(x + 1):
            out[x, y] = (out[x, y] + base - e[x] - e[y]) * (q[x] / mass) * q[y]
        out[x, x] += 1.0
