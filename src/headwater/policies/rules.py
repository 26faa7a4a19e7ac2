"""The names policies go by, and what each name means: an index rule, and perhaps the correlated filter over it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from headwater.complaints import is_number, shown
from headwater.errors import ProblemError

Reference = Literal["none", "most-pulled", "well-pulled"]


def check_positive(field: str, value: object) -> None:
    """Refuse what is neither None nor a finite number above 0."""
    if value is not None and not (is_number(value) and 0 < value < math.inf):  # type: ignore[operator]
        raise ProblemError(f"{field}: got {shown(value)}; expected a number above 0")


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

    ``posterior="normal"`` is N(mean, sd²/n) with ``sd`` B/2 unless given; ``"beta"`` makes each reward 0 or 1 by a coin that
    keeps its mean on [0, 1], and draws from Beta(1 + ones, 1 + zeros).
    """

    posterior: Literal["normal", "beta"] = "normal"
    sd: float | None = None
    name = "ts"

    def __post_init__(self) -> None:
        if self.posterior not in ("normal", "beta"):
            raise ProblemError(f'posterior: got {shown(self.posterior)}; expected "normal" or "beta"')
        check_positive("sd", self.sd)

    @property
    def code(self) -> str:
        return "ts" if self.posterior == "normal" else "ts-beta"


Rule = UCB1 | KLUCB | Thompson


@dataclass(frozen=True)
class Spec:
    """A policy without its problem: what a simulation, a live object and a stored state agree on."""

    rule: Rule
    reference: Reference = "none"

    def __post_init__(self) -> None:
        if self.reference not in get_args(Reference):
            raise ProblemError(f"reference: got {shown(self.reference)}; expected one of {', '.join(get_args(Reference))}")

    @property
    def name(self) -> str:
        if self.reference == "none":
            return self.rule.name
        return "c-ucb" if isinstance(self.rule, UCB1) else f"c-{self.rule.name}"

    @property
    def title(self) -> str:
        """The name with whatever is not the default."""
        extras: list[str] = [] if self.reference in ("none", "most-pulled") else [self.reference]
        if isinstance(self.rule, KLUCB) and self.rule.form != "bernoulli":
            extras.append(self.rule.form)
        if isinstance(self.rule, Thompson):
            extras += [] if self.rule.posterior == "normal" else [self.rule.posterior]
            extras += [] if self.rule.sd is None else [f"sd={self.rule.sd:g}"]
        return self.name + (f" ({', '.join(extras)})" if extras else "")

    def sd(self, scale: float) -> float:
        """The standard deviation of one reward that Thompson sampling assumes: B/2 unless given."""
        given = self.rule.sd if isinstance(self.rule, Thompson) else None
        return 0.5 * scale if given is None else given

    def to_dict(self) -> dict[str, object]:
        out: dict[str, object] = {"name": self.name}
        if self.reference == "well-pulled":
            out["reference"] = self.reference
        if isinstance(self.rule, KLUCB) and self.rule.form != "bernoulli":
            out["form"] = self.rule.form
        if isinstance(self.rule, Thompson):
            out |= {} if self.rule.posterior == "normal" else {"posterior": self.rule.posterior}
            out |= {} if self.rule.sd is None else {"sd": self.rule.sd}
        return out


_PLAIN: dict[str, type[Rule]] = {"ucb1": UCB1, "kl-ucb": KLUCB, "ts": Thompson}
_FILTERED: dict[str, type[Rule]] = {"c-ucb": UCB1, "c-kl-ucb": KLUCB, "c-ts": Thompson}
NAMES = (*_PLAIN, *_FILTERED)


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
    rule = _FILTERED.get(name) or _PLAIN[name]
    known = [field for field in getattr(rule, "__dataclass_fields__", {}) if field != "name"]
    choices = [*known, "reference"] if name in _FILTERED else known
    for key in options:
        if key not in known:
            raise ProblemError(f"{key}: not an option of {name}; expected {', '.join(choices) or 'none, it has no options'}")
    return Spec(rule(**options), reference)  # type: ignore[arg-type]


def parse_spec(text: str) -> Spec:
    """A policy from text: a name, and perhaps options after a colon.

    >>> parse_spec("c-ts:posterior=beta,reference=well-pulled").title
    'c-ts (well-pulled, beta)'
    """
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
    return make_spec(name, **options)
