"""The names policies go by, and what each name means: an index rule, and perhaps the correlated filter over it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from headwater.complaints import is_number, shown
from headwater.errors import ProblemError

Reference = Literal["none", "most-pulled", "well-pulled"]


def check_positive(field: str, value: object, other: str = "") -> None:
    """Refuse what is neither None nor a finite number above 0; ``other`` ends the sentence that says so."""
    if value is not None and not (is_number(value) and 0 < value < math.inf):  # type: ignore[operator]
        raise ProblemError(f"{field}: got {shown(value)}; expected a number above 0{other}")


@dataclass(frozen=True)
class UCB1:
    """The index mean + B sqrt(2 log t / n)."""

    name = "ucb1"

    @property
    def code(self) -> str:
        return "ucb1"


@dataclass(frozen=True)
class KLUCB:
    """The largest mean that the rewards do not refute: n·kl <= log t.

    ``form="bernoulli"`` uses the divergence of two coins, on rewards scaled to [0, 1]; ``form="empirical"`` that of
    distributions on the arm's own levels, which is tighter, and needs finitely many levels.
    """

    form: Literal["bernoulli", "empirical"] = "bernoulli"
    name = "kl-ucb"

    def __post_init__(self) -> None:
        if self.form not in ("bernoulli", "empirical"):
            raise ProblemError(f'form: got {shown(self.form)}; expected "bernoulli" or "empirical"')

    @property
    def code(self) -> str:
        return "kl-ucb" if self.form == "bernoulli" else "kl-ucb-empirical"


@dataclass(frozen=True)
class Thompson:
    """A draw from the posterior of each mean.

    ``posterior="normal"`` is N(mean, sd²/n) with ``sd`` B/2 unless given: the most that rewards can deviate by, and mostly far
    more than they do. ``sd="estimated"`` takes for sd² each arm's sample variance with one pseudo-observation of (B/2)²:
    (sum of squared deviations of the arm's rewards from their mean + (B/2)²) / n. ``"beta"`` makes each reward 0 or 1 by a
    coin that keeps its mean on [0, 1], and draws from Beta(1 + ones, 1 + zeros).
    """

    posterior: Literal["normal", "beta"] = "normal"
    sd: float | Literal["estimated"] | None = None
    name = "ts"

    def __post_init__(self) -> None:
        if self.posterior not in ("normal", "beta"):
            raise ProblemError(f'posterior: got {shown(self.posterior)}; expected "normal" or "beta"')
        if not (isinstance(self.sd, str) and self.sd == "estimated"):
            check_positive("sd", self.sd, ', or "estimated"')
        elif self.posterior == "beta":
            raise ProblemError('sd: got "estimated" with a Beta posterior, which has none; expected posterior="normal"')

    @property
    def code(self) -> str:
        if self.sd == "estimated":
            return "ts-estimated"
        return "ts" if self.posterior == "normal" else "ts-beta"


@dataclass(frozen=True)
class Uniform:
    """Every arm with the same chance, whatever was learned: the A/B test."""

    name = "uniform"
    code = "uniform"


@dataclass(frozen=True)
class EpsilonGreedy:
    """The arm of largest mean, but with probability ``epsilon`` one by lot; every arm once first."""

    epsilon: float = 0.1
    name = "epsilon-greedy"
    code = "epsilon-greedy"

    def __post_init__(self) -> None:
        if not is_number(self.epsilon) or not 0 <= self.epsilon <= 1:
            raise ProblemError(f"epsilon: got {shown(self.epsilon)}; expected a number from 0 to 1")


GUARD = 0.001
"""The chance, over all time, that the guard speaks against a right model."""
AUDIT = 1.0
"""The default audit of policies that learn the law of X, and of filters over tables that were learned."""


Audited = Literal["open-arms", "all-arms"]
"""Which excluded arms are audited: those that some value of X makes better than the most-pulled arm, or all."""
Schedule = Literal["early", "late"]
"""When audits begin and what they may spend: see ``kernel.audit_budget``. Release 0.1 had "late" alone."""


def _check_doubts(guard: object, audited: object) -> None:
    if not is_number(guard) or not 0 <= guard < 1:  # type: ignore[operator]
        raise ProblemError(f"guard: got {shown(guard)}; expected an error rate from 0 (off) to below 1")
    if audited not in get_args(Audited):
        raise ProblemError(f"audited: got {shown(audited)}; expected one of {', '.join(get_args(Audited))}")


def _check_tolerance(tolerance: object) -> None:
    if not is_number(tolerance) or not 0 <= tolerance < math.inf:  # type: ignore[operator]
        raise ProblemError(f"tolerance: got {shown(tolerance)}; expected a number of standard errors, from 0")


@dataclass(frozen=True)
class JointUCB:
    """The most an arm can pay under any law of X whose likelihood is at most a threshold below the largest.

    The threshold is log t - ``discount`` · log(pulls of arms other than the most-pulled): 0 explores most and has the lightest
    tail, 1 least. ``guard`` is the error rate of the test for a wrong model, 0 for none. Where the channels are estimates,
    their means may be wrong by ``tolerance`` standard errors; 0 trusts them.
    """

    discount: float = 0.5
    tolerance: float = 2.0
    guard: float = GUARD
    audited: Audited = "all-arms"
    name = "joint-ucb"
    code = "joint-ucb"

    def __post_init__(self) -> None:
        if not is_number(self.discount) or not 0 <= self.discount <= 1:
            raise ProblemError(f"discount: got {shown(self.discount)}; expected a number from 0 to 1")
        _check_tolerance(self.tolerance)
        _check_doubts(self.guard, self.audited)


@dataclass(frozen=True)
class LatentThompson:
    """The best arm under a draw of the law of X, whose prior is Dirichlet with weight ``prior`` on every point.

    Where the channels are estimates, each arm's mean is drawn around the model's, with a deviation of ``tolerance`` standard
    errors before its own rewards are looked at; 0 trusts them.
    """

    prior: float = 0.5
    tolerance: float = 1.0
    guard: float = GUARD
    audited: Audited = "all-arms"
    name = "latent-ts"
    code = "latent-ts"

    def __post_init__(self) -> None:
        if not is_number(self.prior) or not 0.2 <= self.prior <= 1000:
            raise ProblemError(f"prior: got {shown(self.prior)}; expected a number from 0.2 to 1000")
        _check_tolerance(self.tolerance)
        _check_doubts(self.guard, self.audited)


@dataclass(frozen=True)
class GravesLai:
    """The likeliest law's best arm; explores at the Graves-Lai rates while some plausible law favours another arm."""

    guard: float = GUARD
    audited: Audited = "all-arms"
    name = "graves-lai"
    code = "graves-lai"

    def __post_init__(self) -> None:
        _check_doubts(self.guard, self.audited)


Index = UCB1 | KLUCB | Thompson | Uniform | EpsilonGreedy
Learning = JointUCB | LatentThompson | GravesLai
Rule = Index | Learning


def _check_rule(rule: object) -> None:
    """Refuse what is no rule of ours. A subclass is none: compiled functions decide, and would never call what it overrides."""
    kinds = get_args(Rule)
    if type(rule) in kinds:
        return
    for kind in kinds:
        if isinstance(rule, kind):
            raise ProblemError(
                f"rule: got a {type(rule).__name__}, a subclass of {kind.__name__}, whose overrides would be ignored; expected "
                f"{kind.__name__} itself"
            )
    raise ProblemError(f"rule: got {shown(rule)}; expected one of {', '.join(kind.__name__ for kind in kinds)}, such as UCB1()")


@dataclass(frozen=True)
class Spec:
    """A policy without its problem: what a simulation, a live object and a stored state agree on.

    ``audit`` lets an arm that the model excludes be pulled while its own rewards do not rule it out, at a budget of
    audit · (1 + 0.15 log t) where KL-UCB allows log t, from round 30 on; 0 is the paper, which trusts the model.
    ``schedule="late"`` is release 0.1's: audit · (1 + log t / 40), after round 1,000 / audit.

    Policies that learn the law of X audit every excluded arm, or with ``audited="open-arms"`` not those which, by a model that
    was not learned and that nothing contradicts, pay at most what the most-pulled arm does whatever X is.
    """

    rule: Rule
    reference: Reference = "none"
    audit: float = 0.0
    schedule: Schedule = "early"

    def __post_init__(self) -> None:
        _check_rule(self.rule)
        if self.reference not in get_args(Reference):
            raise ProblemError(f"reference: got {shown(self.reference)}; expected one of {', '.join(get_args(Reference))}")
        if not is_number(self.audit) or not 0 <= self.audit < math.inf:
            raise ProblemError(f"audit: got {shown(self.audit)}; expected a number from 0")
        if self.schedule not in get_args(Schedule):
            raise ProblemError(f"schedule: got {shown(self.schedule)}; expected one of {', '.join(get_args(Schedule))}")
        if self.reference != "none" and isinstance(self.rule, (Uniform, EpsilonGreedy)):
            raise ProblemError(f"reference: got {shown(self.reference)}; expected none, {self.rule.name} has no filter")
        if self.reference != "none" and self.learns:
            raise ProblemError(
                f"reference: got {shown(self.reference)}; expected none, {self.rule.name} has a filter of its own"
            )
        if self.audit and self.reference == "none" and not self.learns:
            raise ProblemError(f"audit: got {shown(self.audit)}; expected 0, because nothing is excluded without a filter")

    @property
    def learns(self) -> bool:
        """Whether it reads all counts at once, as evidence on the law of X."""
        return isinstance(self.rule, Learning)

    @property
    def name(self) -> str:
        if self.reference == "none":
            return self.rule.name
        return "c-ucb" if isinstance(self.rule, UCB1) else f"c-{self.rule.name}"

    @property
    def options(self) -> dict[str, object]:
        """Every option that the policy has, with its value."""
        out: dict[str, object] = {} if self.reference == "none" else {"reference": self.reference}
        out |= {field: getattr(self.rule, field) for field in _fields(type(self.rule))}
        return out | ({} if self.name in _PLAIN else {field: getattr(self, field) for field in AUDITS})

    @cached_property
    def title(self) -> str:
        """The name with whatever is not the default."""
        usual = make_spec(self.name).options
        changed = {key: value for key, value in self.options.items() if value != usual[key]}
        extras = [f"{k}={v:g}" if isinstance(v, (int, float)) else str(v) for k, v in changed.items()]
        return self.name + (f" ({', '.join(extras)})" if extras else "")

    def sd(self, scale: float) -> float:
        """The standard deviation of one reward that Thompson sampling assumes (to begin with, if it estimates it): B/2 unless
        given."""
        given = self.rule.sd if isinstance(self.rule, Thompson) else None
        return 0.5 * scale if given is None or isinstance(given, str) else given

    def to_dict(self) -> dict[str, object]:
        """As it is stored: whole, so that what is stored stays what it is when a default changes."""
        return {"name": self.name, **self.options}


_PLAIN: dict[str, type[Rule]] = {
    "ucb1": UCB1,
    "kl-ucb": KLUCB,
    "ts": Thompson,
    "uniform": Uniform,
    "epsilon-greedy": EpsilonGreedy,
}
_FILTERED: dict[str, type[Rule]] = {"c-ucb": UCB1, "c-kl-ucb": KLUCB, "c-ts": Thompson}
_LEARNING: dict[str, type[Rule]] = {"joint-ucb": JointUCB, "latent-ts": LatentThompson, "graves-lai": GravesLai}
NAMES = (*_PLAIN, *_FILTERED, *_LEARNING)


AUDITS = ("audit", "schedule")


def _fields(rule: type[Rule]) -> list[str]:
    return list(getattr(rule, "__dataclass_fields__", {}))


def make_spec(name: str, /, **options: object) -> Spec:
    """A policy from its name and options; unknown ones are refused with what exists.

    >>> make_spec("c-ucb", reference="well-pulled").title
    'c-ucb (well-pulled)'
    """
    if name not in NAMES:
        raise ProblemError(f"policy: got {shown(name)}; expected one of {', '.join(NAMES)}")
    reference = options.pop("reference", "most-pulled" if name in _FILTERED else "none")
    allowed = ("most-pulled", "well-pulled") if name in _FILTERED else ("none",)
    if reference not in allowed:
        raise ProblemError(f"reference: got {shown(reference)}; expected one of {', '.join(allowed)} for {name}")
    audits: dict[str, object] = {"audit": AUDIT} if name in _LEARNING else {}
    audits |= {key: options.pop(key) for key in AUDITS if key in options and name not in _PLAIN}
    rule = {**_PLAIN, **_FILTERED, **_LEARNING}[name]
    known = _fields(rule)
    choices = [*known, *(["reference"] if name in _FILTERED else []), *([] if name in _PLAIN else AUDITS)]
    for key in options:
        if key not in known:
            raise ProblemError(f"{key}: not an option of {name}; expected {', '.join(choices) or 'none, it has no options'}")
    return Spec(rule(**options), reference, **audits)  # type: ignore[arg-type]


def stored_spec(stored: Mapping[str, object]) -> Spec:
    """A policy as ``Spec.to_dict`` wrote it. Release 0.1 left out options at their defaults: an absent one is what it was then.

    >>> stored_spec({"name": "joint-ucb"}).title
    'joint-ucb (open-arms, late)'
    """
    options = {str(key): value for key, value in stored.items() if key != "name"}
    name = stored["name"]
    if name in _LEARNING:
        options = {"audited": "open-arms", "schedule": "late"} | options
    elif name in _FILTERED and options.get("audit"):
        options = {"schedule": "late"} | options
    return make_spec(name, **options)  # type: ignore[arg-type]


def parse_options(text: str) -> tuple[str, dict[str, object]]:
    """The name in a text such as ``c-ts:posterior=beta``, and its options."""
    name, _, tail = text.strip().partition(":")
    options: dict[str, object] = {}
    for part in filter(None, tail.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ProblemError(f"policy: got {shown(part)} after {name}; expected option=value")
        try:
            options[key] = float(value)
        except ValueError:
            options[key] = value
    return name, options


def parse_spec(text: str) -> Spec:
    """A policy from text: a name, and perhaps options after a colon.

    >>> parse_spec("c-ts:posterior=beta,reference=well-pulled").title
    'c-ts (well-pulled, beta)'
    """
    name, options = parse_options(text)
    return make_spec(name, **options)
