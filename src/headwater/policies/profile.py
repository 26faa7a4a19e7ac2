r"""How large the share of some values of X may be at this moment: the profile likelihood, calibrated.

With :math:`L(p) = \sum_i n_i \log (A p)_i`, a share :math:`\psi = \sum_{j \in S} p_j` is kept while the best law that has it is
not much less likely than the best of all: :math:`2 (\max L - \max_{p(S) = \psi} L) \le c`. Three things make c honest.

**The simplex has corners.** Were all laws interior, c would be the quantile of :math:`\chi^2_1`. Where shares are zero it is
not: with forty values a :math:`\chi^2_1` interval held in 77 %. The degrees of freedom are those of the two solutions at hand:
how many independent channels the best law uses more than the best law that has the share (Susko, 2013: tests at a boundary with
data-dependent degrees of freedom); 1 in the interior. The outermost share that is kept is the end.

**Rewards are whole.** Half a visitor whose X is in S is added for the upper end, half a visitor whose X is not for the lower:
what exact intervals of small counts amount to, and nothing beside many rewards.

**Channels that were learned are estimates.** Under law p, the law of arm k's rewards has the covariance of :math:`N_k` rewards,
:math:`V(A_k p) / N_k`, and that of the control group's, :math:`\sum_j p_j^2 V(A_{kj}) / n_{kj}` with :math:`n_{kj}` rewards;
laws that are shrunk lie nearer to the truth than that. Besides, an arm may pay the new public otherwise than the control group:
overdispersion h adds :math:`h V(A_k p)`. All that is worth as many rewards as :math:`\tau_k N_k`,

.. math:: 1 / \tau_k = 1 + N_k (r_k + h),

:math:`r_k` the most, over all directions, that the control group's variance is of :math:`V(A_k p)`: a likelihood with counts
:math:`\tau_k n_i` errs to the safe side. It is taken at the law that has the share. h is what makes the misfit as large as its
degrees of freedom let expect (Paule and Mandel, 1982), and that it is estimated makes the quantiles those of F.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from headwater import native
from headwater.arrays import Floats, Ints
from headwater.policies.channel_view import channel_view
from headwater.pseudo.channels import Channels

__all__ = ["HALF", "Profile"]

HALF = 0.5
"""The part of a visitor that is added."""
USED = 1e-7
"""A share from which on a value counts as used by a law."""
FEWEST = 10
"""Rewards of a cell from which on ``headwater fit`` estimates its law (``--least``)."""
SPENT = 4.0
"""Rewards of a cell that say how far it is to be shrunk: errors of laws learned from 10 to 20 were a third larger without."""
TURNS = 8
"""How often the worth of the rewards is taken anew at the law found."""
NEAR = 0.05
"""How near two such worths are to be, as a part of one: an end moves by a fortieth of its distance at most."""
FIRST = 6
"""Degrees of freedom to begin with: more are hardly ever found."""
TABLES = 200
"""Tables of counts drawn to see how large a misfit is to be expected."""
LEAST = 1e-12
DENSE = 64
"""Values of X up to which the first law tried uses all; beyond, one: solutions use few."""


class Profile:
    """The evidence at one moment: ``counts`` (R,) of the channels' rows, and what it is worth."""

    def __init__(self, channels: Channels, counts: Floats) -> None:
        self.channels, self.counts = channels, counts
        sizes = np.diff(channels.offset)
        self.arm: Ints = np.repeat(np.arange(len(sizes)), sizes)
        self.pulls: Floats = np.bincount(self.arm, weights=counts, minlength=len(sizes)).astype(float)
        self.arms = np.flatnonzero(self.pulls).tolist()
        self.learned = bool(channels.observations.size) and bool(np.isfinite(channels.observations[self.arms]).any())
        self.matrices: dict[int, Floats] = {k: channels.matrix(k) for k in self.arms}
        self.heterogeneity = 0.0
        self.likelihood = native.Likelihood(channel_view(channels))
        size = channels.g.shape[1]
        used = size if size <= DENSE else 1
        self.p = np.append(np.full(used, 1.0 / used), np.zeros(size - used))
        self._settle()
        self.fit = 1.0
        if self.arms:
            self._judge()

    @cached_property
    def rows(self) -> Floats:
        """The rows of the arms that were pulled, in full, (R', J)."""
        return np.concatenate([self.matrices[k] for k in self.arms])

    @cached_property
    def unsure(self) -> dict[int, tuple[Floats, Floats]]:
        """Laws of learned arms, (J, M) for an arm, and how many rewards each is taken to rest on, (J,).

        A cell's law is taken to have been estimated from one reward more, of the arm's law over all values: where nothing was
        seen, that is all that is known. A cell with fewer than ``FEWEST`` rewards is not estimated from them, it has the law
        that its arm and segment let expect: of its own nothing is known.
        """
        out = {}
        for k in self.arms if self.learned else ():
            if np.isfinite(self.channels.observations[k]).any():
                law, n = self.matrices[k].T, self._observations(k)
                out[k] = (law * n + law.mean(axis=0)) / (n + 1), n[:, 0] + 1
        return out

    def error(self, k: int, p: Floats) -> Floats:
        """The covariance (M, M) of what a learned arm's law may be wrong by if X has law p."""
        law, n = self.unsure[k]
        part = p * p / n
        return np.asarray(np.diag(part @ law) - law.T @ (part[:, None] * law))

    def _observations(self, k: int) -> Floats:
        """How many rewards each of an arm's laws rests on, (J, 1); very many where it is known."""
        n = np.minimum(self.channels.observations[k], 1e15)
        return np.where(n < FEWEST, 0.0, n * n / (n + SPENT))[:, None]

    def worth(self, p: Floats) -> Floats:
        """The part of its number that each arm's rewards are worth if X has law p: tau, (K,)."""
        tau = np.ones(len(self.pulls))
        for k in self.arms:
            r = self.heterogeneity
            if k in self.unsure:
                z = np.maximum(self.matrices[k] @ p, LEAST)
                # largest eigenvalue of V(z)^-1/2 C V(z)^-1/2 on the rewards that sum to nothing
                c = self.error(k, p) / np.sqrt(z[:, None] * z)
                r += float(np.linalg.eigvalsh(c)[-1])
            tau[k] = 1.0 / (1.0 + self.pulls[k] * r)
        return tau

    def _fit(self, of: native.Likelihood, counts: Floats) -> tuple[Floats, Floats, float]:
        """The likeliest law, its z, and its likelihood."""
        p = self.p.copy()
        z, _ = of.climb(counts, np.zeros(len(p)), 0.0, 1e-9, p)
        return p, z, of.log_likelihood(counts, z)

    def _settle(self) -> None:
        """The likeliest law, at the worth that it gives the rewards."""
        self.tau = np.ones(len(self.pulls))
        self.p, self.z, _ = self._fit(self.likelihood, self.counts)
        for turn in range(TURNS if self.learned else 0):
            there = self.worth(self.p)
            if turn and np.all(abs(there - self.tau) <= NEAR * self.tau):
                break
            self.tau = np.sqrt(self.tau * there) if turn else there
            self.p, self.z, _ = self._fit(self.likelihood, self.counts * self.tau[self.arm])

    # Does any law fit?

    @property
    def misfit(self) -> float:
        """Twice the loss of likelihood against laws of each arm's own, at what the rewards are worth."""
        seen = self.counts > 0
        loss = np.log(self.counts[seen] / (self.pulls[self.arm[seen]] * self.z[seen]))
        return float(2 * np.sum(self.tau[self.arm[seen]] * self.counts[seen] * loss))

    def _judge(self) -> None:
        """``fit``: how likely so large a misfit is, at most, where the model is right and channels are as unsure as they say.

        For learned channels, the overdispersion beside that.
        """
        from scipy import stats  # takes longer to import than all else that a decision needs

        misfit, (mean, variance) = self.misfit, self._expected()
        self.fit = float(stats.gamma.sf(misfit, mean * mean / variance, scale=variance / mean))
        if self.learned:
            self._allow_for(misfit, mean)

    def _expected(self) -> tuple[float, float]:
        """The mean and variance of the misfit of the truth, were it the law found: rare rewards have less than chi-square's."""
        rng, total = np.random.default_rng(0), np.zeros(TABLES)
        for k in self.arms:
            low, high = self.channels.offset[k : k + 2]
            z = np.maximum(self.z[low:high], LEAST)
            law = np.broadcast_to(z / z.sum(), (TABLES, len(z)))
            if k in self.unsure:
                law = self._redrawn(k, rng)
            n = rng.multinomial(int(self.pulls[k]), law)
            with np.errstate(divide="ignore", invalid="ignore"):
                total += 2 * self.tau[k] * np.where(n > 0, n * np.log(n / (self.pulls[k] * z)), 0.0).sum(axis=1)
        return max(float(total.mean()), 1e-9), max(float(total.var()), 1e-18)

    def _redrawn(self, k: int, rng: np.random.Generator) -> Floats:
        """Arm k's law if X has law p, (TABLES, M), by channels drawn around the ones learned."""
        law = self.matrices[k].T
        drawn = rng.standard_gamma(law * self._observations(k) + law.mean(axis=0), (TABLES, *law.shape)) + 1e-300
        out = np.einsum("j,tjm->tm", self.p, drawn / drawn.sum(axis=2, keepdims=True))
        return np.asarray(out / out.sum(axis=1, keepdims=True))

    def _allow_for(self, misfit: float, mean: float) -> None:
        """Overdispersion that makes the misfit what its degrees of freedom let expect."""
        free = int(sum(np.count_nonzero(self.matrices[k].any(axis=1)) - 1 for k in self.arms))
        self.freedom = max(free - (self._rank(self.p) - 1), 0)
        self.known_part = 1.0
        if self.freedom == 0:
            return
        target = mean * self.freedom / free
        if misfit <= target:
            return
        before = float(np.sum(self.tau * self.pulls))
        low, high = 1e-9, 1.0
        self.heterogeneity = high
        self._settle()
        if self.misfit < target:
            for _ in range(14):
                self.heterogeneity = float(np.sqrt(low * high))
                self._settle()
                low, high = (self.heterogeneity, high) if self.misfit > target else (low, self.heterogeneity)
                if high < 1.1 * low:
                    break
        self.known_part = float(np.sum(self.tau * self.pulls)) / before

    def _rank(self, p: Floats) -> int:
        used = p > USED
        if used.sum() <= 1:
            return int(used.sum())
        return int(np.linalg.matrix_rank(self.rows[:, used], tol=1e-7))

    # Intervals.

    def interval(self, atoms: list[int], confidence: float) -> tuple[float, float]:
        """The ends for the sum of some values' shares."""
        if not self.arms:
            return 0.0, 1.0
        inside = np.zeros(len(self.p))
        inside[atoms] = 1.0
        look = native.Likelihood(channel_view(with_look(self.channels, inside)))
        high = self._end(look, inside, np.array([HALF, 0.0]), confidence)
        low = 1.0 - self._end(look, 1.0 - inside, np.array([0.0, HALF]), confidence)
        return self._unweakened(atoms, max(low, 0.0), min(high, 1.0))

    def _unweakened(self, atoms: list[int], low: float, high: float) -> tuple[float, float]:
        """The interval, and where it would be were what columns of frequencies differ by reduced by their own errors.

        Errors of a regressor weaken a slope: shares are drawn towards the law c that has the least noise, by what part of the
        differences between columns is noise. Laws that were shrunk have no such effect, so that both are allowed for.
        """
        if not self._noise.any() or len(atoms) == len(self.p):
            return low, high
        c = (1.0 / np.maximum(self._noise, LEAST)) / np.sum(1.0 / np.maximum(self._noise, LEAST))
        inside = np.isin(np.arange(len(c)), atoms)
        middle = float(c[inside].sum())
        d = np.where(inside, c / middle, -c / max(1.0 - middle, LEAST))
        worth = (self.tau * self.pulls)[self.arm[np.isin(self.arm, self.arms)]]
        z = np.maximum(self.rows @ self.p, LEAST)
        noise, seen = float(self._noise @ d**2), float(np.sum(worth / z * (self.rows @ d) ** 2))
        parts = sum(len(self.matrices[k]) - 1 for k in self.channels.raw if k in self.matrices)
        kept = 1.0 - noise / max(seen, LEAST) * (1.0 + 2.0 * np.sqrt(2.0 / parts))
        if kept < 0.1:
            return 0.0, 1.0
        ends = [middle + (end - middle) / kept for end in (low, high)]
        return max(min(low, ends[0]), 0.0), min(max(high, ends[1]), 1.0)

    @cached_property
    def _noise(self) -> Floats:
        """What errors of laws that may be frequencies add to the information on each value, (J,)."""
        out = np.zeros(len(self.p))
        for k in self.channels.raw:
            if k in self.unsure:
                z = np.maximum(self.matrices[k] @ self.p, LEAST)
                law, n = self.unsure[k]
                out += self.tau[k] * self.pulls[k] * (law * (1 - law) @ (1 / z)) / n
        return out

    def _end(self, of: native.Likelihood, g: Floats, look: Floats, confidence: float) -> float:
        """The largest ``g·p`` that is kept, g of 0 and 1."""
        tau, law, first = self.tau, self.p, FIRST
        for _ in range(TURNS if self.learned else 1):
            counts = np.append(self.counts * tau[self.arm], look)
            best, _, most = self._fit(of, counts)
            if g @ best >= 1.0 - USED:
                return 1.0
            law, extra = self._outermost(of, counts, g, best, most, confidence, first)
            there, first = self.worth(law), extra + 1
            if np.all(abs(there - tau) <= NEAR * tau):
                break
            tau = np.sqrt(tau * there)  # half way: a law nearer to the best may be worth much more, and the other way round
        return float(g @ law)

    def _outermost(
        self, of: native.Likelihood, counts: Floats, g: Floats, best: Floats, most: float, confidence: float, first: int
    ) -> tuple[Floats, int]:
        """The law of the largest ``g·p`` that is kept, and its degrees of freedom, sought from ``first`` downwards."""
        freedom = self._rank(best) - 1
        extra, farthest = min(max(freedom, 1), first), freedom
        while True:
            law = self._law_at(of, counts, g, best, most, 0.5 * self._quantile(extra, confidence))
            used = g[law > USED]
            cut = 1 if used.size and used.min() < used.max() else 0
            found = max(freedom - (self._rank(law) - 1 - cut), 1)
            if found >= extra == first < farthest:  # seldom: there may be a law farther out
                extra, farthest = freedom, 0
            elif found >= extra:
                return law, extra
            else:
                extra = found

    def _law_at(self, of: native.Likelihood, counts: Floats, g: Floats, best: Floats, most: float, delta: float) -> Floats:
        """The law of the largest ``g·p`` whose likelihood is delta below the most."""
        law = best.copy()
        of.lift(counts, g, delta, most, law)
        return law

    def _quantile(self, extra: int, confidence: float) -> float:
        if not self.heterogeneity:
            return _chi_square(extra, confidence)
        # by Satterthwaite: of the variance only the overdispersed part is estimated
        return extra * _f(extra, self.freedom / max(1.0 - self.known_part, 1e-3) ** 2, confidence)


@lru_cache(maxsize=1000)
def _chi_square(freedom: int, confidence: float) -> float:
    from scipy import stats

    return float(stats.chi2.ppf(confidence, freedom))


@lru_cache(maxsize=1000)
def _f(freedom: int, rest: float, confidence: float) -> float:
    from scipy import stats

    return float(stats.f.ppf(confidence, freedom, rest))


def with_look(channels: Channels, inside: Floats) -> Channels:
    """The channels, and one more arm, which shows whether X is among the values where ``inside`` (J,) is 1."""
    rows = int(channels.offset[-1])
    return channels._replace(
        values=[*channels.values, np.array([0.0, 1.0])],
        g=np.vstack([channels.g, inside]),
        offset=np.append(channels.offset, rows + 2),
        start=channels.start + np.arange(len(channels.start)),
        row=np.insert(channels.row, channels.start[1:], np.where(inside > 0, rows, rows + 1)),
        weight=np.insert(channels.weight, channels.start[1:], 1.0),
    )
