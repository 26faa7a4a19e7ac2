r"""What no law of X can be refuted by at any time: the likelihood of forecasts that know nothing of X.

Under the true law the ratio of a forecast's likelihood to the truth's is a martingale of mean 1, however arms are chosen, so
that with probability 1 - alpha it never reaches 1/alpha (Ville): the laws that it has not refuted hold at all times at once.
The average of two forecasts is one. The first (``mind``) predicts each arm from its own past and pays for every arm. The second
is the average of the likelihoods of all laws, drawn from Dirichlet's law with parameter 1/2, and pays for every value of X:

.. math::
    \log \int \prod_i (A p)_i^{n_i}\, d\pi(p) \;\ge\; \sum_i n_i \log \sum_j A_{ij} e^{\mathrm E_q \log p_j} - KL(q \,\|\, \pi)

for every Dirichlet law q, with equality where the rewards show X itself. The best q is found by the usual fixed point; that the
integral is bounded from below errs to the safe side.
"""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats

__all__ = ["mixture_forecast"]

PRIOR = 0.5
STEPS = 300


def mixture_forecast(rows: Floats, counts: Floats, start: Floats) -> float:
    """A lower bound of the logarithm of the averaged likelihood of ``counts`` (R,) whose laws are ``rows`` (R, J).

    ``start`` (J,) is a likely law. For one coin that shows X it is exact:

    >>> from scipy import special
    >>> half = special.betaln(30.5, 70.5) - special.betaln(0.5, 0.5)
    >>> round(float(mixture_forecast(np.eye(2), np.array([30.0, 70.0]), np.array([0.3, 0.7])) - half), 9)
    0.0
    """
    from scipy import special

    seen = counts > 0
    a, n = rows[seen], counts[seen]
    prior = np.full(rows.shape[1], PRIOR)
    q, best = prior + n.sum() * start, -np.inf
    for _ in range(STEPS):
        mean_log = special.digamma(q) - special.digamma(q.sum())
        weight = np.exp(mean_log)
        z = a @ weight
        bound = float(n @ np.log(z)) - _divergence(q, prior, mean_log)
        if bound <= best + 1e-6:
            break
        best, q = bound, prior + weight * (a.T @ (n / z))
    return max(best, bound)


def _divergence(q: Floats, prior: Floats, mean_log: Floats) -> float:
    """KL(Dir(q) || Dir(prior))."""
    from scipy import special

    whole = special.gammaln(q.sum()) - special.gammaln(prior.sum()) - np.sum(special.gammaln(q) - special.gammaln(prior))
    return float(whole + np.sum((q - prior) * mean_log))
