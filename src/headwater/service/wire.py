"""What goes over HTTP, as pydantic models: they check requests and write the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from headwater.files import ProblemFile

SLUG = r"^[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?$"
MOST_DECISIONS = 1000
MOST_REWARDS = 5000
MOST_SECONDS = 10 * 365 * 86400.0


def _number(value: Any) -> Any:
    """Refuse what pydantic would take for a number though it is none: a text, true and false."""
    if isinstance(value, (str, bool)):
        raise PydanticCustomError("number", "Input should be a number")
    return value


Number = BeforeValidator(_number)
"""Marks a number of a body."""

Slug = Annotated[str, StringConstraints(pattern=SLUG)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Unit = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Share = Annotated[float, Number, Field(ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Number, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]


def _inlined(part: Any, defs: dict[str, Any]) -> Any:
    """A schema without references, so that it can stand inside another document."""
    if isinstance(part, dict):
        if "$ref" in part:
            return _inlined(defs[part["$ref"].rsplit("/", 1)[-1]], defs)
        return {key: _inlined(value, defs) for key, value in part.items() if key not in ("$defs", "discriminator")}
    return [_inlined(value, defs) for value in part] if isinstance(part, list) else part


_FILE = ProblemFile.model_json_schema()
ProblemBody = Annotated[dict[str, JsonValue], WithJsonSchema(_inlined(_FILE, _FILE.get("$defs", {})))]

Mode = Literal["live", "shadow"]
Status = Literal["running", "paused", "archived"]

EXAMPLE_PROBLEM: dict[str, Any] = {
    "name": "two ads",
    "latent": {"kind": "discrete", "values": ["student", "worker", "retiree"]},
    "arms": {"banner": [1, 2, 2], "video": [1.5, 0, 1.5]},
}


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Control(Body):
    """A fixed share of all decisions that shows one arm, to compare with."""

    arm: Name
    share: Share


class Traffic(Body):
    """What part of the decisions the policy does not make."""

    floor: Share = Field(default=0.0, description="The least share of decisions that every enabled arm gets, by lot.")
    control: Control | None = Field(default=None, description="A fixed share of decisions that shows one arm.")
    holdout: Share = Field(
        default=0.0, description="A share of decisions that shows arms by lot and that the policy does not learn from."
    )


class Waiting(Body):
    """How long rewards may take."""

    reward_deadline: Seconds | None = Field(default=None, description="Seconds after which a reward is no longer waited for.")
    default_reward: Finite | None = Field(
        default=None, description="What counts as paid when the deadline passes. Without it the decision is forgotten."
    )


class Settings(Traffic, Waiting):
    """What a campaign is set to, beside its problem."""

    name: Name
    policy: str = Field(default="auto", max_length=200, description="A policy's name, with options after a colon, or auto.")
    reward_range: Annotated[float, Number, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="B, which scales exploration. Default: the widest arm's range."
    )
    seed: Annotated[int, Number] = Field(default=0, ge=0, lt=2**64, description="Randomised policies and lots draw from it.")
    mode: Mode = Field(default="live", description="shadow: decides and logs, while you show what you would show anyway.")


class CampaignBody(Settings):
    """A new campaign."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "name": "two ads",
                    "problem": EXAMPLE_PROBLEM,
                    "policy": "auto",
                    "reward_deadline": 86400,
                    "default_reward": None,
                }
            ]
        },
    )

    id: Slug | None = Field(default=None, description="Small letters, digits and hyphens. Default: made from the name.")
    problem: ProblemBody = Field(description="The problem, in the shape of a problem file.")


class CampaignChange(Body):
    """What may change while a campaign runs; what is left out stays."""

    name: Name | None = None
    floor: Share | None = None
    control: Control | None = None
    holdout: Share | None = None
    reward_deadline: Seconds | None = None
    default_reward: Finite | None = None
    mode: Mode | None = None


class ArmChange(Body):
    """Switch an arm on or off."""

    arm: Name
    enabled: Annotated[bool, Field(strict=True)]


class DecideBody(Body):
    """What is asked for. Nothing: one decision."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"unit": "visitor-17"}, {"count": 100}]})

    unit: Unit | None = Field(default=None, description="Who it is for: the same unit gets the same decision again.")
    units: list[Unit] | None = Field(default=None, min_length=1, max_length=MOST_DECISIONS, description="Many units at once.")
    count: Annotated[int, Number] | None = Field(default=None, ge=1, le=MOST_DECISIONS, description="Many decisions at once.")
    shown: Name | None = Field(default=None, description="Shadow mode: the arm that you show anyway.")

    @model_validator(mode="after")
    def _one_of(self) -> DecideBody:
        given = [name for name in ("unit", "units", "count") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"one of unit, units and count, not {' and '.join(given)}")
        return self


class RewardBody(Body):
    """What the arm paid."""

    value: Finite = Field(description="The reward.", examples=[2])


class RewardItem(RewardBody):
    decision: str = Field(max_length=120, description="A decision's id.", examples=["two-ads.7"])


class RewardsBody(Body):
    """Many rewards at once, of any campaigns."""

    rewards: list[RewardItem] = Field(min_length=1, max_length=MOST_REWARDS)


class Decision(BaseModel):
    """A decision."""

    id: str = Field(examples=["two-ads.7"])
    arm: str = Field(description="The arm to show.")
    propensity: float | None = Field(description="How likely this arm was; null in shadow mode, where you decide.")
    policy: str
    version: int = Field(description="Of the campaign's settings; grows with every change.")
    source: Literal["policy", "floor", "control", "holdout", "shadow"]
    reason: str
    choice: str = Field(description="What the policy would have shown.")
    unit: str | None = None
    repeated: bool = Field(description="Made before, for the same unit or idempotency key.")
    at: str = Field(description="UTC, ISO 8601.")


class LoggedReward(BaseModel):
    value: float | None = Field(description="null: the deadline passed, and the decision was forgotten.")
    kind: Literal["paid", "default", "forgotten"]
    at: str


class LoggedDecision(Decision):
    """A decision and its reward, if it has one."""

    reward: LoggedReward | None


class Decisions(BaseModel):
    decisions: list[Decision]


class Page(BaseModel):
    """A part of the log."""

    decisions: list[LoggedDecision]
    next: int | None = Field(description="Give it as ``after``, or ``before``, to read on; null at the end.")


class RewardAnswer(BaseModel):
    """What became of a reward."""

    decision: str
    arm: str
    value: float
    status: Literal["counted", "repeated"] = Field(description="repeated: it was counted before, and is so once.")


class RefusedReward(BaseModel):
    decision: str
    code: str
    message: str


class RewardsAnswer(BaseModel):
    """What became of many rewards: each one for itself."""

    counted: int
    repeated: int
    refused: list[RefusedReward]


class CampaignView(BaseModel):
    """A campaign."""

    id: str
    name: str
    status: Status
    mode: Mode
    version: int
    policy: str = Field(description="The policy with its options; what auto stands for here.")
    created: str
    arms: dict[str, bool] = Field(description="Every arm, and whether it is enabled.")
    floor: float
    control: Control | None
    holdout: float
    reward_deadline: float | None
    default_reward: float | None
    reward_range: float | None
    seed: int
    decisions: int
    rewards: int = Field(description="Decisions that were paid, defaulted or given up.")
    pending: int
    refused: int = Field(description="Rewards that were refused.")


class Campaigns(BaseModel):
    campaigns: list[CampaignView]


class Check(BaseModel):
    """A full check of the database."""

    status: Literal["never", "running", "right", "wrong", "failed"]
    began: str | None = None
    ended: str | None = None
    damage: list[str] | None = Field(default=None, description="What is wrong with the file.")
    campaigns: dict[str, list[str]] | None = Field(default=None, description="For each campaign what is wrong with it.")
    message: str | None = Field(default=None, description="Why the check could not be made.")
