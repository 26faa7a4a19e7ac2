"""The compiled core: what runs once a round. Written by native/stub.py."""

import enum
from typing import Any

from headwater.arrays import AnyInts, Bools, Floats, Ints

def philox(c0: int, c1: int, c2: int, c3: int, k0: int, k1: int) -> tuple[int, int, int, int]: ...
def uniforms(*, seed: int, replication: int, block: int, purpose: int, lane: int) -> tuple[int, int]: ...
def to_open_unit(u: int) -> float: ...
def draw_rounds(thresholds: Ints, guide: Ints, *, seed: int, replication: int, count: int) -> Any:
    """The atoms of a replication's first rounds."""

def draw_rewards(*, seed: int, replication: int, count: int) -> Any:
    """
    The uniforms that decide random rewards in a replication's first rounds.
    """

purposes: dict[str, Any] = ...

def elementary(name: str, x: Floats, build: str | None = None) -> Floats: ...

class Rewards:
    def __init__(self, table: Ints, unit: float, low: float, span: float) -> None: ...

class Evidence:
    def __init__(self, channels: ChannelView, pays: Floats, bins: Ints, *, binned: bool, zero: float, width: float) -> None: ...

class Random:
    def __init__(self, g: Floats, channels: list[Any], *, zero: float, scale: float, slack: float) -> None: ...

class Columns:
    def __init__(
        self,
        up: AnyInts,
        less: AnyInts | None,
        much_less: AnyInts | None,
        g: Floats,
        top: int,
        *,
        rows: int = 128,
        kept: int = 16777216,
        least: int = 8,
        debts: int = 4096,
    ) -> None: ...

class Model:
    def __init__(
        self,
        rewards: Rewards,
        *,
        evidence: Evidence | None = None,
        random: Random | None = None,
        columns: Columns | None = None,
    ) -> None: ...

class Source:
    def __init__(self, thresholds: Ints, guide: Ints, level: Ints, cuts: Ints, seed: int) -> None: ...

class Settings:
    def __init__(
        self,
        *,
        rule: int,
        seed: int,
        scale: float,
        sd: float = 0.0,
        audit: float = 0.0,
        late: bool = False,
        filtered: int = 0,
        epsilon: float = 0.0,
        guard: float = 0.0,
        prior: float = 1.0,
        discount: float = 0.0,
        thorough: bool = False,
    ) -> None: ...

class Seat:
    def __init__(
        self,
        settings: Settings,
        pulls: Ints,
        reward: Ints,
        excluded: Ints,
        evidence: Ints | None = None,
        doubted: Ints | None = None,
    ) -> None: ...

class Leaps:
    def __init__(self, chances: Floats, longest: int, sure: float) -> None: ...

def play(
    model: Model,
    source: Source,
    checkpoints: Ints,
    seats: list[Any],
    first: int,
    watch: Ints,
    slot: int,
    engine: str,
    leaps: Leaps | None = None,
) -> None: ...
def simd() -> str: ...
def builds() -> list[Any]: ...

RULES: dict[str, Any] = ...

LASTING: tuple[Any, ...] = ("ucb1", "kl-ucb")

class Rates(enum.IntEnum):
    """What became of the rates."""

    SOLVED = 0
    """They are optimal."""

    NOTHING = 1
    """No arm needs to be explored: they are 0."""

    STALLED = 2
    """Rounding got in the way."""

def exploration_rates(channels: ChannelView, p: Floats, c: Floats) -> Rates:
    """Fill c with the optimal exploration rates at the law p."""

class Explorer:
    """graves-lai on its own, without guard and audits."""

    def __init__(self, channels: ChannelView, eager: bool = False) -> None: ...
    def play(self, level: Ints, x: Ints) -> Any:
        """Whole rounds from the start: the arms pulled."""

def kl_ucb_index(mean: Floats, pulls: Floats, log_t: float, low: float, span: float) -> Any:
    """KL-UCB's index in its Bernoulli form."""

def kl_ucb_reaches(mean: float, pulls: float, other: float, log_t: float, low: float, span: float) -> bool:
    """Whether that index may be `other` or more."""

def kl_empirical_index(seen: Ints, pays: Floats, pulls: int, log_t: float) -> float:
    """KL-UCB's index on the arm's own rewards."""

def kl_needed(seen: Ints, pays: Floats, target: float) -> tuple[Any, ...]:
    """
    How unlikely rewards are under the likeliest law of mean `target`, and how fast that grows.
    """

def estimated_error(pulls: int, total: int, squares: int, rest: int, unit: float, sd: float) -> float:
    """The standard error of a mean whose variance is estimated."""

def elsewhere(replication: int, draw: int) -> int:
    """The replication of a draw that must not be one of any decision."""

class FitState:
    """What is known of the law of X, with bounds of every arm's joint index."""

    def __init__(self, channels: ChannelView, eager: bool = False) -> None: ...
    def forget(self) -> None: ...
    def recall(self, n: Floats, doubted: Bools) -> None:
        """Take these counts, but for those of doubted arms."""

    def witness(self, k: int, row: int) -> None: ...
    def freshen(self) -> None: ...
    def likeliest(self) -> Any:
        """The law that makes the counts most likely."""

    def contradiction(self, rate: float) -> int:
        """The arm to doubt, or -1."""

    def doubt(self, k: int) -> None: ...
    def check(self, rate: float) -> None:
        """Doubt arms until what is left can be explained."""

    def decide(self, delta: float) -> int: ...
    def reaches(self, k: int, delta: float, x: float) -> bool:
        """Whether arm k's index is at least x."""

    def enclose(self, delta: float) -> None:
        """Bounds of every arm, whatever was exact before."""

    def raise_prices(self, k: int) -> None: ...
    def improve(self, k: int, delta: float, p: Floats, theta: float, tries: int) -> None:
        """One more step of arm k's law from p and the tilt theta."""

    def play(self, level: Ints, x: Ints) -> Any:
        """Whole rounds: the arms pulled."""

    @property
    def n(self) -> Any:
        """How often each row was seen."""

    @property
    def pulls(self) -> Any: ...
    @property
    def doubted(self) -> Any: ...
    @property
    def slack(self) -> Any: ...
    @property
    def leeway(self) -> Any: ...
    @property
    def own(self) -> Any:
        """Each arm's own index, which caps the joint one."""

    @own.setter
    def own(self, arg: Floats, /) -> None: ...
    @property
    def share(self) -> Any:
        """The part of delta an arm's index goes by."""

    @share.setter
    def share(self, arg: Floats, /) -> None: ...
    @property
    def eager(self) -> bool: ...
    @eager.setter
    def eager(self, arg: bool, /) -> None: ...
    @property
    def total(self) -> float: ...
    @property
    def likelihood(self) -> float:
        """That of the likeliest law at hand."""

    @property
    def forecast(self) -> float:
        """The forecaster's likelihood."""

    @property
    def bound(self) -> Any:
        """Each arm's index, or what bounds it from above."""

    @property
    def floor(self) -> Any: ...
    @property
    def base(self) -> Any:
        """Each arm's mean under the likeliest law at hand."""

    @property
    def theta(self) -> Any: ...
    @property
    def exact(self) -> Any: ...
    @property
    def tries(self) -> Any:
        """How often an arm was worked at for the last decision."""

class Draws:
    def __init__(self, seed: int, replication: int = 0) -> None: ...
    def rewind(self, replication: int) -> None: ...
    def unit(self) -> float: ...
    def binomial(self, n: int, p: float, out: Ints) -> None: ...
    def hypergeometric(self, good: int, bad: int, taken: int, out: Ints) -> None: ...
    def split(self, whole: Ints, taken: int, out: Ints) -> None: ...
    def take(self, whole: Ints, out: Ints) -> None: ...

class Order:
    def __init__(self, drawn: Ints, pay: Ints) -> None: ...
    def doubt(self, start: float, end: float) -> float: ...
    def keeps(self, start: float, end: float, sure: float) -> bool: ...
    def strays(self, sure: float) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def second(self) -> float: ...

def lasts(rule: int, rewards: Rewards, settings: Settings, counts: dict[str, Any], drawn: Ints, sure: float) -> bool: ...

MANY_REWARDS: int = 64

NARROW_VARIANCE: float = 36.0

class ChannelView:
    """
    The channels as learning policies read them: arrays that stay Python's.
    """

    def __init__(self, **kwargs: Any) -> None: ...
    @property
    def pairs(self) -> int:
        """How many pairs of arms are read together."""

class Likelihood:
    """The likelihood of counts under laws of X, with room to work in."""

    def __init__(self, channels: ChannelView) -> None: ...
    def climb(self, n: Floats, g: Floats, theta: float, tolerance: float, p: Floats) -> tuple[Any, ...]:
        """
        Maximise L(p) + theta g.p from p, in place: A p, and how much better any other law could be.
        """

    def lift(self, n: Floats, g: Floats, delta: float, best: float, p: Floats) -> tuple[Any, ...]:
        """
        Tilt p, in place, towards g until it is delta less likely than `best`: A p, theta, and the gradient's largest entry.
        """

    def through(self, p: Floats) -> Any:
        """A p: how likely each row is."""

    def back(self, y: Floats) -> Any:
        """A'y, over atoms."""

    def log_likelihood(self, n: Floats, z: Floats) -> float:
        """sum n log z over the rows that were seen."""

def audited(chosen: int, log_t: float, rewards: Rewards, settings: Settings, state: dict[str, Any]) -> int:
    """The arm to pull instead of the chosen one, or that one."""

def audit_bar(rewards: Rewards, settings: Settings, top: float, log_t: float) -> float:
    """The mean that an audited arm must be able to reach."""

class Live:
    def __init__(self, model: Model, settings: Settings, replication: int) -> None: ...
    def copy(self) -> Live: ...
    def select(self) -> int: ...
    def decide(self) -> int: ...
    def decide_ahead(self, out: Ints, off: Ints, draws: int) -> None: ...
    def expect(self, arms: Ints) -> None: ...
    def cancel(self, arm: int) -> None: ...
    def pay(self, arm: int, kind: int) -> None: ...
    def forget_choice(self) -> None: ...
    def rebuild(self) -> None: ...
    def doubted(self) -> list[Any]:
        """The arms that are judged by their own rewards alone."""

    def course(self) -> dict[str, Any]: ...
    def likeliest(self) -> Any:
        """The likeliest law of X."""

    def tries(self) -> Any:
        """How often each arm was worked at for the last decision."""

    def count(self, arm: int, atom: int, n: int) -> None: ...
    def row(self, arm: int) -> Any: ...
    def seen(self) -> tuple[Any, ...]: ...
    def follow(self, law: Floats, prepared: Floats, held_until: float, held_arm: int) -> None: ...
    def look_closely(self) -> None: ...
    def doubt(self, doubted: Bools) -> None: ...
    def arrays(self, ahead: bool) -> Any: ...
    def most_pulled(self, ahead: bool) -> int: ...
    @property
    def bytes(self) -> int:
        """How much memory it keeps, but for what grows with the rewards."""

    @property
    def debts(self) -> int:
        """Levels that the leader's row of sums is owed for."""

    @property
    def waiting(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @rounds.setter
    def rounds(self, arg: int, /) -> None: ...

class PosteriorWalk:
    def __init__(self, channels: ChannelView, *, alpha: float) -> None: ...
    def prepare(self, counts: Floats) -> int: ...
    def stale(self, counts: Floats) -> bool: ...
    def forget(self) -> None: ...
    def walk(self, p: Floats, counts: Floats, *, steps: int, seed: int, replication: int = 0, t: int) -> int: ...
    def fill(self, out: Floats, counts: Floats, *, burn_in: int, thin: int, seed: int) -> None: ...
    @property
    def prepared_counts(self) -> Any: ...
    @property
    def prepared(self) -> dict[str, Any]: ...

NEWTON_STEPS: int = 60

def rough_log(x: float) -> float: ...
def recommended_steps(atoms: int) -> int: ...
def likeliest_law(a: Floats, q: Floats, f: Floats) -> float: ...
def imply(k: int, a: Floats, g: Floats, seen: Ints, bases: Ints, bound: Floats) -> bool: ...

class PseudoRewardProgramme:
    def __init__(self, random: Random) -> None: ...
    def fit(self, k: int, pulls: int, total: int, seen: Ints, sums: Ints) -> int: ...
    def forget(self) -> None: ...
    def fitted(self, k: int) -> int: ...

class Curvature:
    """The curvature of the atoms that p uses, factored: A' diag(bend) A."""

    def __init__(self, channels: ChannelView, p: Floats, bend: Floats) -> None: ...
    def take_in(self, atom: int) -> None: ...
    def drop(self, slot: int, mass: float) -> None:
        """Its mass goes to `gone`, the others feel it in `pull`."""

    def solve(self, u: Floats, v: Floats) -> None:
        """u and v, over the atoms in use, become H^-1 u and H^-1 v."""

    @property
    def factor(self) -> Any:
        """The upper triangular factor, row after row."""

    @property
    def active(self) -> Any:
        """The atoms in use."""

    @property
    def gone(self) -> Any: ...
    @property
    def pull(self) -> Any: ...
    @property
    def ridge(self) -> float: ...

def maximise(a: Floats, b: Floats, c: Floats, basis: Ints, basic: Floats, dual: Floats, reduced: Floats) -> int: ...
def largest(x: Floats) -> float: ...
def magnitude(x: Floats) -> float: ...

class gpu:
    LINEAR_ATOMS: int = 16

    @staticmethod
    def size(model: Model, source: Source, settings: Settings, narrow: bool) -> int:
        """Bytes of a problem's arrays."""

    @staticmethod
    def lay(model: Model, source: Source, settings: Settings, narrow: bool, address: int, block: AnyInts) -> bytes:
        """
        Lay a problem's arrays in a block that will lie at an address: the problem, as a kernel takes it.
        """

    @staticmethod
    def room(model: Model, source: Source, settings: Settings) -> int:
        """Bytes of a replication that plays alone."""

    @staticmethod
    def launch(
        *,
        first: int,
        size: int,
        start: int,
        length: int,
        room: int,
        state: int,
        seen: int,
        rounds: int,
        roots: int,
        roots_size: int,
        out: int,
    ) -> bytes:
        """
        Which rounds to play, and the addresses of what changes, as a kernel takes it.
        """

    @staticmethod
    def emulate(
        *,
        kind: int,
        arms: int,
        atoms: int,
        members: int,
        filtered: bool,
        single: bool,
        narrow: bool,
        problem: bytes,
        launch: bytes,
    ) -> bool:
        """
        Play a launch here. False where that kind of kernel was not compiled in.
        """
