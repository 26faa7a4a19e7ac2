"""What may be asked of the desk. Each runs inside a transaction, and changes nothing where it refuses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from sqlalchemy import ColumnElement, Select, func, insert, select

from headwater.complaints import shown
from headwater.errors import HeadwaterError
from headwater.service.answers import ServiceError
from headwater.service.batch import Batch
from headwater.service.campaign import (
    ARCHIVED,
    DEFAULT,
    FORGOTTEN,
    PAID,
    PAUSED,
    RUNNING,
    Campaign,
    Config,
    check_settings,
    paused,
    warm_up,
)
from headwater.service.models import Made, make
from headwater.service.tables import campaigns, decisions, rewards
from headwater.service.wire import CampaignBody, CampaignChange


def parse_decision(text: str) -> tuple[str, int]:
    """A decision's campaign and number.

    >>> parse_decision("two-ads.7")
    ('two-ads', 7)
    """
    slug, _, number = text.rpartition(".")
    if not slug or not number.isascii() or not number.isdigit() or len(number) > 18:
        raise ServiceError(404, f"there is no decision {shown(text)}")
    return slug, int(number)


class Operation(Protocol):
    """One request to the desk: which campaigns it is about, how many rows it is about, and what it does with them."""

    @property
    def rows(self) -> int:
        return 1

    def slugs(self) -> set[str]: ...

    def run(self, batch: Batch) -> Any: ...


def _campaign(batch: Batch, slug: str) -> Campaign:
    if slug not in batch.campaigns:
        raise ServiceError(404, f"there is no campaign {shown(slug)}")
    return batch.campaigns[slug]


@dataclass
class Decide(Operation):
    """Decide for ``units`` (None: nobody in particular); ``key`` makes it safe to ask again."""

    slug: str
    units: list[str | None]
    shown: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if any(unit is not None and "\0" in unit for unit in self.units):
            raise ServiceError(422, "unit: got a text with a NUL in it, which PostgreSQL cannot keep; expected one without")

    @property
    def rows(self) -> int:
        return len(self.units)

    def slugs(self) -> set[str]:
        return {self.slug}

    def run(self, batch: Batch) -> list[dict[str, Any]]:
        campaign = _campaign(batch, self.slug)
        if self.key is not None and (kept := batch.look_up_request(campaign, self.key)) is not None:
            if kept["asked"] != self._asked():
                message = f"Idempotency-Key: {shown(self.key)} was used for another request; expected a new one"
                raise ServiceError(409, message, code="key_reused")
            numbers = json.loads(kept["numbers"])
            batch.look_up_rewards(campaign, numbers)
            return [campaign.answer(batch.decisions[campaign.id, n], repeated=True) for n in numbers]
        if (refusal := paused(campaign)) is not None:
            raise refusal
        self._check_shown(campaign)
        rows = self._decide(batch, campaign)
        if self.key is not None:
            batch.answer_to(campaign, self.key, self._asked(), [row["number"] for row, _ in rows])
        return [campaign.answer(row, repeated=repeated) for row, repeated in rows]

    def _decide(self, batch: Batch, campaign: Campaign) -> list[tuple[dict[str, Any], bool]]:
        """A row for each unit, and whether it had been decided before: a unit is decided once, while its arm is on."""
        named = [unit for unit in self.units if unit is not None]
        before: dict[str, dict[str, Any]] = {}
        if named:
            batch.look_up_units(campaign, named)
            for unit in named:
                number = batch.units.get((campaign.id, unit))
                row = None if number is None else batch.decisions[campaign.id, number]
                if row is not None and campaign.names[row["arm"]] not in campaign.config.disabled:
                    before[unit] = row
        new_units = dict.fromkeys(unit for unit in named if unit not in before)
        fresh: list[str | None] = [*new_units] if named else self.units
        made = campaign.decide(len(fresh), fresh, self.shown, batch.at) if fresh else []
        batch.add_decisions(campaign, made)
        if not named:
            return [(row, False) for row in made]
        new = {row["unit"]: row for row in made}
        return [(before[unit], True) if unit in before else (new[unit], False) for unit in named]

    def _check_shown(self, campaign: Campaign) -> None:
        if campaign.config.mode == "shadow":
            if self.shown is None:
                raise ServiceError(422, "shown: missing; expected the arm that you show, because this campaign is a shadow")
            campaign.problem.index(self.shown, "shown")
        elif self.shown is not None:
            raise ServiceError(422, f"shown: got {shown(self.shown)}; expected nothing, because this campaign is live")

    def _asked(self) -> str:
        return hashlib.sha256(json.dumps([self.units, self.shown]).encode()).hexdigest()


@dataclass
class Settle(Operation):
    """Count rewards: (decision, value) each. One of them raises its refusal; of many, each is told its own."""

    items: list[tuple[str, float]]
    many: bool = False
    numbers: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for decision, _ in self.items:
            try:
                slug, number = parse_decision(decision)
            except ServiceError:
                if not self.many:
                    raise
            else:
                self.numbers.setdefault(slug, []).append(number)

    @property
    def rows(self) -> int:
        return len(self.items)

    def slugs(self) -> set[str]:
        return set(self.numbers)

    def run(self, batch: Batch) -> dict[str, Any]:
        for slug, numbers in self.numbers.items():
            if slug in batch.campaigns:
                batch.look_up_rewards(batch.campaigns[slug], numbers)
        if not self.many:
            decision, value = self.items[0]
            campaign, arm, status = self._settle(batch, decision, value)
            return {"decision": decision, "arm": arm, "value": value, "status": status, "campaign": campaign.slug}
        tally = {"counted": 0, "repeated": 0}
        refused = []
        for decision, value in self.items:
            try:
                tally[self._settle(batch, decision, value)[2]] += 1
            except ServiceError as error:
                refused.append({"decision": decision, "code": error.code, "message": str(error)})
        return {**tally, "refused": refused}

    def _settle(self, batch: Batch, decision: str, value: float) -> tuple[Campaign, str, str]:
        slug, number = parse_decision(decision)
        campaign = batch.campaigns.get(slug)
        row = None if campaign is None else batch.decisions.get((campaign.id, number))
        if campaign is None or row is None:
            raise ServiceError(404, f"there is no decision {shown(decision)}")
        arm = campaign.names[row["arm"]]
        before = batch.rewards.get((campaign.id, number))
        if before is not None:
            if before["kind"] == PAID and before["value"] == value:
                return campaign, arm, "repeated"
            raise self._refuse(batch, campaign, number, *self._too_late(decision, before, value))
        try:
            campaign.policy.check(arm, value)
        except HeadwaterError as error:
            raise self._refuse(batch, campaign, number, 422, "unpayable", f"{decision}: {error}") from None
        batch.settle(campaign, row, value, PAID)
        return campaign, arm, "counted"

    def _too_late(self, decision: str, before: Mapping[str, Any], value: float) -> tuple[int, str, str]:
        if before["kind"] == PAID:
            message = f"{decision}: the reward {before['value']:g} was counted already; a second one, {value:g}, is refused"
            return 409, "conflict", message
        instead = f"{before['value']:g} was counted" if before["kind"] == DEFAULT else "it was given up"
        return 409, "deadline_passed", f"{decision}: its deadline passed and {instead}; the reward {value:g} came too late"

    def _refuse(self, batch: Batch, campaign: Campaign, number: int, status: int, code: str, message: str) -> ServiceError:
        batch.refuse(campaign, number, code, message)
        return ServiceError(status, message, code=code)


@dataclass
class Expire(Operation):
    """Settle what was due: with the default reward, or by giving up."""

    slug: str
    most: ClassVar[int] = 2000

    def slugs(self) -> set[str]:
        return {self.slug}

    def run(self, batch: Batch) -> int:
        """How many decisions were looked at; ``most`` means there may be more."""
        campaign = _campaign(batch, self.slug)
        campaign.look_for_tangles(batch.connection)
        query = select(decisions.c.number, decisions.c.due).where(decisions.c.campaign == campaign.id)
        query = query.where(decisions.c.number > campaign.counters.expired).order_by(decisions.c.number).limit(self.most)
        passed, next_due = [], None
        for number, due in batch.connection.execute(query):
            if due is not None and due > batch.at:
                next_due = due
                break
            passed.append((number, due))
        behind = self._behind(batch, campaign) if campaign.tangled and len(passed) < self.most else []
        due_now = dict.fromkeys([number for number, due in passed if due is not None] + behind)
        batch.look_up_rewards(campaign, due_now)
        default = campaign.config.default_reward
        for number in due_now:
            if (campaign.id, number) not in batch.rewards:
                row = batch.decisions[campaign.id, number]
                batch.settle(campaign, row, default, FORGOTTEN if default is None else DEFAULT)
        looked = max(len(passed), len(behind))
        if looked == self.most:
            next_due = batch.at
        elif campaign.tangled:
            next_due = self._least(batch, campaign)
        batch.expired(campaign, passed[-1][0] if passed else campaign.counters.expired, next_due)
        return looked

    def _least(self, batch: Batch, campaign: Campaign) -> float | None:
        """The earliest deadline of those that wait, wherever they stand, or the next sweep. O(what is not expired)."""
        least = batch.connection.execute(self._waiting(campaign, func.min(decisions.c.due))).scalar_one()
        return None if least is None else max(least, campaign.next_sweep(batch.at))

    def _behind(self, batch: Batch, campaign: Campaign) -> list[int]:
        """What is due behind a decision that is not. O(decisions that are not expired)."""
        query = self._waiting(campaign, decisions.c.number).where(decisions.c.due <= batch.at)
        return list(batch.connection.execute(query.order_by(decisions.c.number).limit(self.most)).scalars())

    @staticmethod
    def _waiting(campaign: Campaign, column: ColumnElement[Any]) -> Select[Any]:
        paid = (rewards.c.campaign == decisions.c.campaign) & (rewards.c.number == decisions.c.number)
        query = select(column).select_from(decisions.outerjoin(rewards, paid)).where(rewards.c.number.is_(None))
        return query.where(decisions.c.campaign == campaign.id, decisions.c.number > campaign.counters.expired)


@dataclass
class Create(Operation):
    """A new campaign."""

    body: CampaignBody
    made: Made | None = None
    """What everything that can be refused without the database was checked for; made here where nobody has."""

    def __post_init__(self) -> None:
        if self.made is None:
            self.made, policy = make(self.body)
            warm_up(policy.spec, self.made.problem, self.body.reward_range)

    def slugs(self) -> set[str]:
        return set()

    def run(self, batch: Batch) -> dict[str, Any]:
        assert self.made is not None
        batch.alone()  # so that a name which is free stays so
        slug = self._slug(batch)
        row = {
            "slug": slug,
            "created": batch.at,
            "status": RUNNING,
            "version": 1,
            "problem": self.made.text,
            "config": self.made.config.model_dump_json(),
            "changed": batch.changed,
            **dict.fromkeys(("decided", "settled", "expired", "refused", "snapshot_decided", "snapshot_settled"), 0),
        }
        id_ = batch.connection.execute(insert(campaigns).returning(campaigns.c.id), [row]).scalar_one()
        batch.problems[id_] = self.made.problem
        batch.lock([slug])
        campaign = batch.campaigns[slug]
        batch.tell(campaign, "created", f"Created with the policy {campaign.policy.spec.title}.")
        return campaign.view()

    def _slug(self, batch: Batch) -> str:
        def taken(slug: str) -> bool:
            return batch.connection.execute(select(campaigns.c.id).where(campaigns.c.slug == slug)).first() is not None

        if self.body.id is not None:
            if taken(self.body.id):
                raise ServiceError(409, f"id: got {shown(self.body.id)}; expected one that no other campaign has")
            return self.body.id
        base = slug_of(self.body.name)
        return next(s for n in range(1, 10**9) if not taken(s := base if n == 1 else f"{base}-{n}"))


def slug_of(name: str) -> str:
    """An id made from a name.

    >>> slug_of("Two ads, März!"), slug_of("日本")
    ('two-ads-m-rz', 'campaign')
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].strip("-") or "campaign"


@dataclass
class Change(Operation):
    """Change settings; only what the request named."""

    slug: str
    body: CampaignChange

    def slugs(self) -> set[str]:
        return {self.slug}

    def run(self, batch: Batch) -> dict[str, Any]:
        campaign = _campaign(batch, self.slug)
        given = self.body.model_dump(include=self.body.model_fields_set)
        for name in ("name", "floor", "holdout", "mode"):
            if name in given and given[name] is None:
                raise ServiceError(422, f"{name}: got null; expected a value, or leave it out")
        config = Config.model_validate({**campaign.config.model_dump(), **given})
        return _reconfigure(batch, campaign, config, "Changed " + ", ".join(sorted(given)) + "." if given else "")


@dataclass
class SwitchArm(Operation):
    """Enable or disable an arm. Its rewards go on counting as evidence."""

    slug: str
    arm: str
    enabled: bool

    def slugs(self) -> set[str]:
        return {self.slug}

    def run(self, batch: Batch) -> dict[str, Any]:
        campaign = _campaign(batch, self.slug)
        campaign.problem.index(self.arm)
        off = set(campaign.config.disabled) - {self.arm} if self.enabled else {*campaign.config.disabled, self.arm}
        config = campaign.config.model_copy(update={"disabled": [name for name in campaign.names if name in off]})
        verb = "Enabled" if self.enabled else "Disabled"
        if config.disabled == campaign.config.disabled:
            return campaign.view()
        return _reconfigure(batch, campaign, config, f"{verb} {self.arm}.")


def _reconfigure(batch: Batch, campaign: Campaign, config: Config, message: str) -> dict[str, Any]:
    check_settings(config, campaign.problem, campaign.policy)
    if config != campaign.config:
        batch.change(campaign, config=config.model_dump_json())
        batch.tell(campaign, "changed", message)
        campaign.reconfigure(config)
    return campaign.view()


@dataclass
class SetStatus(Operation):
    """Pause, resume or archive. What is archived stays so."""

    slug: str
    status: str

    def slugs(self) -> set[str]:
        return {self.slug}

    def run(self, batch: Batch) -> dict[str, Any]:
        campaign = _campaign(batch, self.slug)
        before = campaign.counters.status
        if before == ARCHIVED and self.status != ARCHIVED:
            raise ServiceError(409, f"{self.slug}: the campaign is archived; make a new one from its problem", code=ARCHIVED)
        if before != self.status:
            batch.change(campaign, status=self.status)
            campaign.counters = campaign.counters._replace(status=self.status)
            verb = {RUNNING: "Resumed", PAUSED: "Paused", ARCHIVED: "Archived"}[self.status]
            batch.tell(campaign, self.status, f"{verb}.")
        return campaign.view()
