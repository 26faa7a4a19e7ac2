"""The paper's problems and what it says of them, as data, and how that compares with what is computed.

"Correlated Multi-armed Bandits with a Latent Random Source" (Gupta, Joshi, Yağan). The reward functions of its discrete
simulation are only in a figure that is not part of its text; the table used here is a replacement that satisfies
everything the text says about the three cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

from headwater.analysis import Analysis, analyze
from headwater.claims import Check, Claim, check
from headwater.latent import Continuous, Discrete, Vector, listed
from headwater.policies import make_policy
from headwater.problem import Problem
from headwater.regret_bounds import Bounds, bounds
from headwater.simulation import Simulation, simulate


@dataclass(frozen=True)
class Case:
    """One of the paper's problems."""

    id: str
    title: str
    problem: Problem
    claims: tuple[Claim, ...]
    note: str = ""
    horizon: int = 20_000
    replications: int = 500
    others: int = 50
    """Runs of policies that are not in the paper, for comparison."""
    learners: int = 24
    """Runs of policies that learn the law of X: each costs dozens to hundreds of runs of the paper's."""


@dataclass(frozen=True)
class Panel:
    """A case, analysed and compared."""

    case: Case
    analysis: Analysis
    checks: tuple[Check, ...]
    simulation: Simulation | None = None
    bounds: Bounds | None = None
    """What regret is possible; None where X is continuous."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "bounds": None if self.bounds is None else self.bounds.to_dict(),
            "simulation": None if self.simulation is None else self.simulation.to_dict(),
            "title": self.case.title,
            "note": self.case.note,
            "analysis": self.analysis.to_dict(),
            "checks": [check.to_dict() for check in self.checks],
        }


def _claims(best: str, competitive: Sequence[str] = (), non_competitive: Sequence[str] = ()) -> tuple[Claim, ...]:
    out = [Claim(f"{best} is optimal", "best", best)]
    for about, arms in (("competitive", competitive), ("non_competitive", non_competitive)):
        if arms:
            verb = "is" if len(arms) == 1 else "are"
            out.append(Claim(f"{' and '.join(arms)} {verb} {about.replace('_', '-')}", about, list(arms)))  # type: ignore[arg-type]
    return tuple(out)


FLAT = Claim("C-UCB's regret stays constant", "flat")
GROWS = Claim("C-UCB's regret grows with the number of rounds", "grows")
BELOW = Claim("C-UCB's regret is smaller than UCB1's", "below")
SIMILAR = Claim("C-UCB and UCB1 perform alike", "similar")

_DISCRETE_ARMS = {
    "arm 1": [0, 1.5, 1.5, 4, 2],
    "arm 2": [3.5, 1.5, 0, 0, 3.5],
    "arm 3": [4, 3, 3, 0, 0],
}
_REPLACED = (
    "The paper's reward functions are in a figure that is not in its text; this table satisfies all it says of the three cases."
)


def _discrete(number: int, p: list[float], claims: tuple[Claim, ...], what: str) -> Case:
    problem = Problem(
        latent=Discrete(["x1", "x2", "x3", "x4", "x5"]),
        arms=_DISCRETE_ARMS,
        distribution=p,
        name=f"discrete case {number}",
    )
    return Case(f"discrete-{number}", f"Discrete X, case {number}: {what}", problem, claims, _REPLACED)


def _continuous(case: str, a: int, b: int, claims: tuple[Claim, ...], what: str, note: str = "", rate: float = 2.5) -> Case:
    problem = Problem(
        latent=Continuous([0, 1]),
        arms={
            "arm 1": "exp(-(x - 0.5)**2 / (2 * 0.2**2)) / (2 * sqrt(2 * pi * 0.2**2))",
            "arm 2": f"1 - exp(-{rate:g} * x)",
            "arm 3": "0.5",
        },
        distribution={"name": "beta", "a": a, "b": b},
        name=f"continuous case {case}",
    )
    title = f"Continuous X ~ Beta({a}, {b}){what}"
    return Case(f"continuous-{case}", title, problem, claims, note, replications=100, learners=12)


def _vector(
    number: int,
    distribution: Any,
    claims: tuple[Claim, ...],
    what: str,
    note: str = "",
    horizon: int = 20_000,
    others: int = 50,
    learners: int = 24,
) -> Case:
    problem = Problem(
        latent=Vector({"x1": [-1, 0, 1], "x2": [-1, 0, 1]}),
        arms={"arm 1": "x1 + x2", "arm 2": "x1 - x2"},
        distribution=distribution,
        name=f"vector case {number}",
    )
    title = f"Latent vector, case {number}: {what}"
    return Case(
        f"vector-{number}", title, problem, claims, note, horizon=horizon, replications=100, others=others, learners=learners
    )


def _peaked() -> list[list[float]]:
    """Vector case 2: .48 and .5 on (1, -1) and (1, 1), and what is left spread evenly over the other seven points."""
    rest = 0.02 / 7
    return [[rest, rest, rest], [rest, rest, rest], [0.48, rest, 0.5]]


TWO_ARMS = Case(
    "two-arms",
    "The two-arm example",
    Problem(
        latent=Discrete(["x1", "x2", "x3"]),
        arms={"arm 1": [1, 2, 2], "arm 2": [1.5, 0, 1.5]},
        distribution=[0.3, 0.4, 0.3],
        name="two arms",
    ),
    (Claim("arm 2 is non-competitive with respect to arm 1", "non_competitive", ["arm 2"]),),
    "Three of ten pulls of arm 1 paid 1 and seven paid 2: its mean is 1.7, and arm 2 can have paid 1.5 at most.",
)

INVERTIBLE = Case(
    "example-1",
    "Example 1: all reward functions are invertible",
    Problem(
        latent=Discrete(["x1", "x2", "x3", "x4", "x5"]),
        arms={"arm 1": [0, 1, 2, 3, 4], "arm 2": [2, 0, 4, 1, 3], "arm 3": [3, 4, 0, 2, 1]},
        distribution=[0.1, 0.2, 0.25, 0.25, 0.2],
        name="example 1",
    ),
    (
        Claim("one arm's rewards are samples of every other arm's", "samples"),
        Claim("arm 2 and arm 3 are non-competitive", "non_competitive", ["arm 2", "arm 3"]),
        FLAT,
        Claim("pure exploitation has bounded regret", "exploits"),
    ),
    "The paper's Example 1 names no functions; these are ours, under the first discrete case's distribution. Pure exploitation "
    "pulls the arm that would have paid most so far.",
)

LINEAR = Case(
    "appendix-linear",
    "Linear arms, from the appendix",
    Problem(
        latent=Vector({"x1": {"low": 0, "high": 1}, "x2": {"low": 0, "high": 1}}),
        arms={"arm 1": "x1 + 0.1*x2", "arm 2": "x2 + 0.1*x1"},
        distribution={"x1": {"name": "beta", "a": 5, "b": 2}, "x2": {"name": "uniform"}},
        name="appendix, linear arms",
    ),
    (Claim("s21(r) is the optimum of a linear programme", "programme", ("arm 2", "arm 1", [(1, 0.1), (0.1, 1)])),),
    "The paper gives no supports and no distribution: the unit square, Beta(5, 2) and the uniform law are ours. Arm 2 is "
    "competitive: C-UCB can do no better than UCB1.",
    replications=50,
    others=20,
)

CASES: tuple[Case, ...] = (
    TWO_ARMS,
    INVERTIBLE,
    _discrete(1, [0.1, 0.2, 0.25, 0.25, 0.2], (*_claims("arm 1", (), ("arm 2", "arm 3")), FLAT, BELOW), "no competitive arm"),
    _discrete(
        2,
        [0.25, 0.17, 0.25, 0.17, 0.16],
        (
            *_claims("arm 3", ("arm 2",), ("arm 1",)),
            GROWS,
            BELOW,
            Claim("C-UCB's pulls of arm 1 do not scale with the number of rounds", "settles", "arm 1"),
            Claim("C-UCB's pulls of arm 2 can scale with the number of rounds", "scales", "arm 2"),
        ),
        "one competitive arm",
    ),
    _discrete(
        3, [0.05, 0.3, 0.3, 0.05, 0.3], (*_claims("arm 3", ("arm 1", "arm 2")), GROWS, SIMILAR, BELOW), "two competitive arms"
    ),
    _continuous(
        "1",
        4,
        4,
        (*_claims("arm 1", (), ("arm 2", "arm 3")), FLAT, BELOW),
        ": as printed",
        "With the printed g2 = 1 - exp(-2.5 x), arm 2 is competitive. The paper's three statements hold together only for "
        "a rate between 1.012 and 2.247.",
    ),
    _continuous(
        "1-variant",
        4,
        4,
        (*_claims("arm 1", (), ("arm 2", "arm 3")), FLAT, BELOW),
        ", with g2 = 1 - exp(-2 x)",
        "A variant with which everything the paper says of this case is true.",
        rate=2,
    ),
    _continuous(
        "2",
        2,
        5,
        (
            *_claims("arm 1", ("arm 2",), ("arm 3",)),
            GROWS,
            BELOW,
            Claim("C-UCB explores only arm 2", "explores", ("c-ucb", ["arm 2"])),
            Claim("UCB1 explores both arm 1 and arm 2", "explores", ("ucb1", ["arm 1", "arm 2"])),
        ),
        "",
        "The best arm's pulls are no exploration: what UCB1 explores is arm 2 and arm 3.",
    ),
    _continuous(
        "3",
        1,
        5,
        (
            *_claims("arm 3", ("arm 1", "arm 2")),
            GROWS,
            SIMILAR,
            Claim("C-UCB explores both arm 1 and arm 2", "explores", ("c-ucb", ["arm 1", "arm 2"])),
        ),
        "",
    ),
    _vector(
        1,
        {"x1": [0.3, 0.4, 0.3], "x2": [0.38, 0.22, 0.4]},
        (
            Claim("s21(r) > g1(r) only if r = 2", "exceeds", ("arm 2", "arm 1", 2)),
            Claim("r = 2 from arm 1 identifies X as (1, 1)", "identifies", ("arm 1", 2, "(1, 1)")),
            Claim("s12(r) > g2(r) only if r = 2", "exceeds", ("arm 1", "arm 2", 2)),
            Claim("r = 2 from arm 2 identifies X as (1, -1)", "identifies", ("arm 2", 2, "(1, -1)")),
            *_claims("arm 1", ("arm 2",)),
            Claim("arm 2's gap is 0.04", "gap", ("arm 2", 0.04)),
            GROWS,
            SIMILAR,
        ),
        "arm 2 is competitive",
        "The first and the third statement have their sign turned: both pseudo-rewards are 2 - |r|, below r only at r = 2.",
    ),
    _vector(
        2,
        _peaked(),
        (
            *_claims("arm 1", (), ("arm 2",)),
            Claim("arm 2's gap is 0.04", "gap", ("arm 2", 0.04)),
            Claim("the probabilities .48, .5 and seven times .0028 sum to 1", "sum", 0.48 + 0.5 + 7 * 0.0028),
            Claim("C-UCB can infer that arm 2 is not the best: its regret flattens", "flattens"),
            BELOW,
        ),
        "arm 2 is non-competitive",
        "The printed probabilities sum to 0.9996; .02/7 for each of the seven other points is used. "
        "The pseudo-gap is so narrow that the regret flattens only after about 100,000 rounds.",
        horizon=200_000,
        others=20,
        learners=8,
    ),
    LINEAR,
)


POLICIES = ("ucb1", "c-ucb")
OTHERS = ("kl-ucb", "c-kl-ucb", "ts", "c-ts")
"""Not in the paper, for comparison."""
LEARNERS = ("joint-ucb", "latent-ts", "graves-lai")
"""Past the paper: these learn the law of X. The last two need a listed support."""
SEED = 2019


def compare(cases: Sequence[Case] = CASES) -> list[Panel]:
    """Analyse each case and check each claim that analysis can decide."""
    return [_panel(case, None) for case in cases]


def reproduce(
    cases: Sequence[Case] = CASES,
    *,
    scale: float = 1.0,
    progress: Callable[[str, float], None] | None = None,
) -> list[Panel]:
    """Analyse and simulate each case and check each claim. ``scale`` shortens horizons (and their claims' strength)."""
    panels = []
    for n, case in enumerate(cases):
        groups = ((POLICIES, case.replications), (OTHERS, case.others), (learners(case), case.learners))
        stages = [(policies, replications) for policies, replications in groups if policies]
        horizon, runs = max(int(case.horizon * scale), 100), list[Simulation]()
        for stage, (policies, replications) in enumerate(stages):

            def report(
                done: int, total: int, before: float = n + stage / len(stages), of: int = len(stages), title: str = case.title
            ) -> None:
                if progress is not None:
                    progress(title, (before + done / total / of) / len(cases))

            how: dict[str, Any] = {"horizon": horizon, "replications": replications, "seed": SEED}
            runs.append(simulate(case.problem, policies=policies, progress=report, **how))
        panels.append(_panel(case, reduce(Simulation.with_more, runs)))
    return panels


def learners(case: Case) -> tuple[str, ...]:
    """The policies that learn the law of X and can be had on a case."""
    latent = case.problem.latent
    return LEARNERS if listed(latent) else LEARNERS[:1] if isinstance(latent, Continuous) else ()


class Step(NamedTuple):
    """One pull of arm 1 in the two-arm example."""

    round: int
    reward: float
    mean: float
    pseudo_reward: float
    verdict: str


def walkthrough(rewards: Sequence[float] = (2, 1, 2, 2, 1, 2, 2, 2, 1, 2)) -> list[Step]:
    """The two-arm example, round by round, from the live policy's own explanation: three of ten pulls pay 1, seven 2."""
    policy = make_policy("c-ucb", TWO_ARMS.problem)
    steps = []
    for n, reward in enumerate(rewards, start=1):
        policy.update("arm 1", reward)
        first, second = policy.explain().arms
        assert first.mean is not None and second.pseudo_reward is not None
        verdict = "empirically competitive" if second.excluded_by is None else "empirically non-competitive: not pulled"
        steps.append(Step(n, reward, first.mean, second.pseudo_reward, verdict))
    return steps


def _panel(case: Case, run: Simulation | None) -> Panel:
    analysis = analyze(case.problem)
    found = (check(claim, case.problem, analysis, run) for claim in case.claims)
    checks = tuple(one for one in found if one is not None)
    return Panel(case, analysis, checks, run, bounds(case.problem) if listed(case.problem.latent) else None)
