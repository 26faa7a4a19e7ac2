r"""Which laws of X the counts allow: the maximum of their likelihood, tilted towards one arm or not, on the simplex.

Row i of the channels was seen :math:`n_i` times, N in all. With :math:`z = A p`,

.. math::
    L(p) = \sum_i n_i \log z_i, \qquad \Phi_\theta(p) = L(p) + \theta\, g \cdot p .

:math:`\theta = 0` gives the law of X that explains the counts best; as :math:`\theta` grows, its maximiser walks along the
laws with the largest :math:`g \cdot p` among all that are at least as likely. With :math:`\gamma = \nabla \Phi_\theta(p)`, no
law is better than p by more than :math:`\max_j \gamma_j - \gamma \cdot p`, which certifies a solution whatever way it was
found.

Sequential quadratic programming: the quadratic model of :math:`\Phi_\theta` at p is maximised over the simplex by an active set
of atoms (the solution uses few), then a line search. Self-concordance makes that converge from anywhere, quadratically in the
end. A step costs O(nnz + |S|² c + |S|³), S the atoms in use and c the entries of a column: K for deterministic arms.
"""

from __future__ import annotations

import math

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies.compile import compiled
from headwater.policies.lens import Lens, back, make_lens, through
from headwater.policies.quadratic import best_step, start, tilt
from headwater.pseudo.channels import Channels

__all__ = ["approach", "climb", "log_likelihood", "maximise_likelihood", "slope", "spread", "tilt_slope", "worth"]

STEPS = 200
LEAST = 0.2
"""The least part of n / z that a price moved by the quadratic model may become."""


@compiled
def log_likelihood(n: Floats, z: Floats) -> float:
    """``sum n log z`` over the rows that were seen; -inf where one of them is impossible."""
    total = 0.0
    for i in range(n.size):
        if n[i] > 0:
            if z[i] <= 0.0:
                return -np.inf
            total += n[i] * math.log(z[i])
    return total


@compiled
def spread(lens: Lens, n: Floats, p: Floats, z: Floats) -> bool:
    """Make every row that was seen possible: give some mass to the likeliest atom of each that is not. Leaves ``z = A p``.

    Few atoms, not all: a law that uses few stays cheap to improve. Returns whether p was changed.
    """
    through(lens, p, z)
    missing = 0
    for i in range(n.size):
        missing += 1 if n[i] > 0 and not z[i] > 1e-13 else 0
    if missing == 0:
        return False
    for j in range(p.size):
        p[j] *= 0.9
    for i in range(n.size):
        if n[i] > 0 and not z[i] > 1e-13:
            likely, most = 0, -1.0
            for e in range(lens.begin[i], lens.begin[i + 1]):
                if lens.chance[e] > most:
                    likely, most = lens.atom[e], lens.chance[e]
            p[likely] += 0.1 / missing
    through(lens, p, z)
    return True


@compiled
def worth(lens: Lens, y: Floats, g: Floats, theta: float, out: Floats) -> float:
    """``theta g + A'y``, what each atom is worth at prices y (R,), into out (J,); returns the largest. O(nnz)."""
    for j in range(out.size):
        out[j] = theta * g[j]
    back(lens, y, out)
    most = -np.inf
    for j in range(out.size):
        most = max(most, out[j])
    return most


@compiled
def slope(lens: Lens, n: Floats, g: Floats, theta: float, p: Floats, z: Floats) -> tuple[float, float]:
    """The gradient at p, into ``lens.atoms[0]``; the curvature of each row, into ``lens.rows[0]``, and its price, into
    ``lens.rows[5]``. Returns the gradient's largest entry and its mean under p.
    """
    grad, bend, y, mean = lens.atoms[0], lens.rows[0], lens.rows[5], 0.0
    for i in range(n.size):
        y[i] = n[i] / z[i] if n[i] > 0 else 0.0
        bend[i] = y[i] / z[i] if n[i] > 0 else 0.0
    most = worth(lens, y, g, theta, grad)
    for j in range(p.size):
        mean += p[j] * grad[j]
    return most, mean


@compiled
def _move(lens: Lens, n: Floats, d: Floats, dz: Floats, step: float, p: Floats, z: Floats) -> None:
    """``p += step d``, on the simplex whatever rounding does, and ``z = A p``, given ``dz = A d``."""
    mass = 0.0
    for j in range(p.size):
        if d[j] != 0.0:
            p[j] = max(p[j] + step * d[j], 0.0)
            if p[j] < 1e-15 and d[j] < 0.0:
                p[j] = 0.0
        mass += p[j]
    for j in range(p.size):
        p[j] /= mass
    possible = True
    for i in range(z.size):
        z[i] = max(z[i] + step * dz[i], 0.0) / mass
        possible = possible and (n[i] <= 0 or z[i] > 1e-9)
    if not possible:  # small differences: better counted anew
        spread(lens, n, p, z)


@compiled
def _ascend(lens: Lens, n: Floats, g: Floats, theta: float, mean: float, p: Floats, z: Floats, y: Floats) -> int:
    """One step of sequential quadratic programming from p, whose gradient, of that ``mean``, ``slope`` has left.

    Returns what ``best_step`` does; ``y`` (R,) becomes the prices n / z as the quadratic model moves them.
    """
    grad, d, bend, dz = lens.atoms[0], lens.atoms[1], lens.rows[0], lens.rows[1]
    size = best_step(lens, p, grad, mean, bend, d, dz)
    rise, tilted, step, total = 0.0, 0.0, 1.0, 0.0
    for j in range(p.size):
        rise += (grad[j] - mean) * d[j]
        tilted += theta * g[j] * d[j]
    for i in range(n.size):
        total += n[i]
        if n[i] > 0 and dz[i] < -0.95 * z[i]:  # keep every row that was seen well away from impossible
            step = min(step, -0.95 * z[i] / dz[i])
    for _ in range(40):
        gain = step * tilted
        for i in range(n.size):
            if n[i] > 0:
                gain += n[i] * math.log1p(step * dz[i] / z[i])
        if gain >= 0.1 * step * rise or step * rise <= 1e-13 * (total + theta):
            break
        step *= 0.5
    for i in range(n.size):
        y[i] = n[i] / z[i] - bend[i] * dz[i] if n[i] > 0 else 0.0
    _move(lens, n, d, dz, step, p, z)
    return size


@compiled
def climb(lens: Lens, n: Floats, g: Floats, theta: float, tolerance: float, p: Floats, z: Floats) -> float:
    """Maximise ``L(p) + theta g·p`` from p, in place; leaves ``z = A p`` and the gradient in ``lens.atoms[0]``.

    Returns how much better any other law could be: at most ``tolerance``, or what rounding allows.
    """
    spread(lens, n, p, z)
    total = 0.0
    for i in range(n.size):
        total += n[i]
    gap = np.inf
    for _ in range(STEPS):
        most, mean = slope(lens, n, g, theta, p, z)
        before, gap = gap, most - mean
        if gap <= tolerance or (gap <= 1e-10 * (total + theta) and gap > 0.5 * before):
            return gap
        _ascend(lens, n, g, theta, mean, p, z, lens.rows[5])
    return gap


@compiled
def tilt_slope(lens: Lens, n: Floats, g: Floats, p: Floats, z: Floats) -> float:
    """How fast ``g·p`` grows with theta at a maximiser p: ``g' H⁻¹ g`` within the simplex, on the atoms that p uses."""
    bend, middle = lens.rows[0], 0.0
    for i in range(n.size):
        bend[i] = n[i] / (z[i] * z[i]) if n[i] > 0 else 0.0
    for j in range(p.size):
        middle += g[j] * p[j]
    size, _ = start(lens, p, bend)
    return tilt(lens, size, g, middle)


@compiled
def approach(
    lens: Lens, n: Floats, g: Floats, delta: float, best: float, theta: float, limit: float, p: Floats, z: Floats, y: Floats
) -> float:
    r"""One step towards the largest ``g·p`` among laws whose likelihood is at most delta below ``best``.

    p and theta move together: a step of ``climb`` at theta, then along the path of maximisers to the theta at which the
    likelihood should be right, by Newton's method on the square root of its drop, which is nearly linear in theta. Wants
    ``z = A p``, every seen row possible, and what ``slope`` leaves; leaves z. Returns theta, at most ``limit``.

    ``y`` (R,) becomes the prices that go with it: not n / z at the new p, under which atoms that p does not use may well be
    worth more than those it does, but what the quadratic model makes of the old n / z. In that model no atom is worth more than
    those in use; and the two prices differ by a factor of 1 - r² only, r the relative change of z, so that a bound which rests
    on them is off by the sum of n r⁴ / 2.
    """
    d, dz, bend, mean = lens.atoms[1], lens.rows[1], lens.rows[0], 0.0
    for j in range(p.size):
        mean += p[j] * lens.atoms[0, j]
    size = _ascend(lens, n, g, theta, mean, p, z, y)
    if size > 0:
        middle = 0.0
        for j in range(p.size):
            middle += g[j] * p[j]
            d[j] = 0.0
        pace = theta * tilt(lens, size, g, middle)
        root = math.sqrt(max(best - log_likelihood(n, z), 0.0))
        further = 30.0 * theta
        if pace > 0.0 and root > 0.0:
            further = theta + 2.0 * root * (math.sqrt(delta) - root) / pace
        further = min(max(further, theta / 30.0), 30.0 * theta, limit)
        step = further - theta
        for a in range(size):
            j = lens.active[a]
            d[j] = step * lens.atoms[5, a]
        step = 1.0
        for j in range(p.size):
            if d[j] < -p[j]:
                step = min(step, p[j] / -d[j])
        through(lens, d, dz)
        for i in range(n.size):
            if n[i] > 0 and step * dz[i] < -0.5 * z[i]:
                step = -0.5 * z[i] / dz[i]
        for i in range(n.size):
            y[i] -= bend[i] * dz[i]
        _move(lens, n, d, dz, step, p, z)
        theta = further
    for i in range(n.size):
        if n[i] > 0:
            y[i] = max(y[i], LEAST * n[i] / z[i])
    return theta


def maximise_likelihood(channels: Channels, counts: Floats | Ints, start: Floats | None = None) -> tuple[Floats, float]:
    """The law of X (J,) that makes the counts (R,) of the channels' rows most likely, and how far from the maximum it may be.

    >>> import headwater as hw
    >>> from headwater.pseudo.channels import channels_of
    >>> ads = hw.Problem(latent=hw.Discrete(["a", "b", "c"]), arms={"one": [0, 1, 1], "two": [2, 2, 5]})
    >>> p, gap = maximise_likelihood(channels_of(ads), np.array([10, 30, 0, 20]))
    >>> p.round(3).tolist(), gap < 1e-6
    ([0.167, 0.0, 0.833], True)
    """
    lens = make_lens(channels, 0.0, 1.0)
    size = channels.g.shape[1]
    p = np.full(size, 1.0 / size) if start is None else np.array(start, dtype=float)
    z = np.zeros(len(counts))
    gap = climb(lens, np.asarray(counts, dtype=float), lens.g[0], 0.0, 1e-9, p, z)
    return p, gap
