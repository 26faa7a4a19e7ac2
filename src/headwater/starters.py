"""Commented problem files to start from: ``headwater new KIND`` prints one. In ASCII, which is UTF-8 in any terminal."""

from __future__ import annotations

DISCRETE = """\
# A problem with a discrete latent X: every kind of customer responds to every ad in a known way; the mix is unknown.
name = "two ads"

[latent]
kind = "discrete"
values = ["student", "worker", "retiree"]   # the kinds: labels, or numbers (then arms may be expressions in x)
probabilities = [0.3, 0.4, 0.3]             # optional: for analysis and simulation; a live run never sees it

[arms]                                      # one reward per kind, in the same order
banner = [1, 2, 2]
video = [1.5, 0, 1.5]

# reward_range = 2      # optional, above [latent]: the width B of the rewards, which scales exploration bonuses
# A random reward is a table of its own; one row per kind:
# [arms.coupon]
# outcomes = [0, 3]
# probabilities = [[0.9, 0.1], [0.5, 0.5], [0.7, 0.3]]
"""

CONTINUOUS = """\
# A problem with a continuous latent X: arms are expressions in x.
name = "three curves"

[latent]
kind = "continuous"
support = [0, 1]                                   # inf and -inf are allowed where the rewards stay finite
distribution = { name = "beta", a = 4, b = 4 }     # optional: scipy's names (beta, uniform, norm, expon, ...), cut to it
# distribution = { sample = [0.2, 0.5, 0.7], weights = [1, 2, 1] }

[arms]   # + - * / ** ( ) comparisons, pi, e, exp log sqrt abs sin cos tanh min max floor, where(condition, a, b)
bump = "exp(-(x - 0.5)**2 / 0.08)"
rise = "1 - exp(-2*x)"
step = "where(x < 0.3, 0.2, 0.6)"
"""

VECTOR = """\
# A problem with a latent vector: arms are expressions in the components' names.
name = "two hidden causes"

[latent]
kind = "vector"
components = { x1 = [-1, 0, 1], x2 = { low = 0, high = 1 } }    # finite values, or an interval
probabilities = { x1 = [0.3, 0.4, 0.3] }                        # optional, per component (or nested, for finite joint laws)
distribution = { x2 = { name = "uniform" } }                    # optional, for the intervals

[arms]
sum = "x1 + x2"
difference = "x2 - x1"
"""

STARTERS = {"discrete": DISCRETE, "continuous": CONTINUOUS, "vector": VECTOR}
