"""One transaction: campaigns locked and up to date, what is asked for looked up, and rows that wait to be written together."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from headwater.policies.suspects import blame
from headwater.problem import Problem
from headwater.service import changes
from headwater.service.campaign import COUNTERS, HOLDOUT, Campaign, Config, Counters
from headwater.service.tables import campaigns, decisions, events, refusals, requests, rewards

SNAPSHOT_EVERY = 5000
"""Rows of the logs after which a policy's state is stored, so that a restart need not read them again."""

MAKING = 0x6D616B65
"""The number of PostgreSQL's lock for whoever makes a campaign."""
_LOOK_UP = 500  # values in one IN (…)
_NAMES = ("decided", "settled", "expired", "refused", "next_due", "changed")
_COUNTED = update(campaigns).where(campaigns.c.id == bindparam("row")).values({name: bindparam(name) for name in _NAMES})


class Batch:
    """Everything that one transaction knows and will write. Campaigns must have been ``lock``ed before anything else.

    ``known`` are the campaigns in memory, ``problems`` those of campaigns whose problem is, by the row's id: those that were
    thrown away after a failure are made again here. ``absent`` are campaigns whose problem somebody else has to make first.
    """

    def __init__(self, connection: Connection, known: dict[str, Campaign], problems: dict[int, Problem], at: float) -> None:
        self.connection, self.at = connection, at
        self.known, self.problems = known, problems
        self.absent: set[str] = set()
        self.campaigns: dict[str, Campaign] = {}
        self._changed: int | None = None
        self.decisions: dict[tuple[int, int], dict[str, Any]] = {}
        self.rewards: dict[tuple[int, int], dict[str, Any]] = {}
        self._looked: set[tuple[int, int]] = set()  # decisions whose rewards are known, also where there are none
        self.units: dict[tuple[int, str], int] = {}
        self.requests: dict[tuple[int, str], dict[str, Any]] = {}
        self._touched: set[int] = set()  # campaigns whose counters changed
        self._new: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("decisions", "rewards", "refusals", "requests", "events")
        }

    def lock(self, slugs: Collection[str]) -> None:
        """Lock the rows of these campaigns, in one order for everybody, and bring what is in memory up to date."""
        possible = sorted(slug for slug in slugs if "\0" not in slug)  # which PostgreSQL refuses, and everything with it
        query = select(campaigns.c.id, campaigns.c.slug, *COUNTERS).where(campaigns.c.slug.in_(possible))
        for row in self.connection.execute(query.order_by(campaigns.c.id).with_for_update()).all():
            counters = Counters(*row[2:])
            campaign = self.known.get(row.slug)
            if campaign is None or campaign.id != row.id:
                problem = self.problems.get(row.id)
                if problem is None:
                    self.absent.add(row.slug)
                    continue
                campaign = self.known[row.slug] = load(self.connection, row.id, problem)
            campaign.lock.acquire()
            campaign.used = time.monotonic()
            self.campaigns[row.slug] = campaign
            catch_up(self.connection, campaign, counters)

    def alone(self) -> None:
        """Until the end no other process makes a campaign. SQLite has one writer anyway."""
        if self.connection.dialect.name == "postgresql":
            self.connection.execute(select(func.pg_advisory_xact_lock(MAKING)))

    def unlock(self) -> None:
        for campaign in self.campaigns.values():
            campaign.lock.release()
        self.campaigns = {}

    # Looking up.

    def look_up_rewards(self, campaign: Campaign, numbers: Iterable[int]) -> None:
        """Decisions and, where they have them, rewards."""
        wanted = [n for n in set(numbers) if (campaign.id, n) not in self._looked]
        self._looked.update((campaign.id, n) for n in wanted)
        for low in range(0, len(wanted), _LOOK_UP):
            some = wanted[low : low + _LOOK_UP]
            for table, found in ((decisions, self.decisions), (rewards, self.rewards)):
                query = select(table).where(table.c.campaign == campaign.id, table.c.number.in_(some))
                for row in self.connection.execute(query).mappings():
                    found[campaign.id, row["number"]] = dict(row)

    def look_up_units(self, campaign: Campaign, units: Iterable[str]) -> None:
        wanted = [unit for unit in set(units) if (campaign.id, unit) not in self.units]
        for low in range(0, len(wanted), _LOOK_UP):
            query = select(decisions).where(
                decisions.c.campaign == campaign.id, decisions.c.unit.in_(wanted[low : low + _LOOK_UP])
            )
            for row in self.connection.execute(query.order_by(decisions.c.number)).mappings():
                self.units[campaign.id, row["unit"]] = row["number"]
                self.decisions[campaign.id, row["number"]] = dict(row)

    def look_up_request(self, campaign: Campaign, key: str) -> dict[str, Any] | None:
        if (campaign.id, key) not in self.requests:
            query = select(requests).where(requests.c.campaign == campaign.id, requests.c.key == key)
            row = self.connection.execute(query).mappings().first()
            if row is None:
                return None
            self.requests[campaign.id, key] = dict(row)
        return self.requests[campaign.id, key]

    # Writing: at the end, together.

    def add_decisions(self, campaign: Campaign, rows: list[dict[str, Any]]) -> None:
        self._new["decisions"] += rows
        if rows and rows[0]["due"] is not None:  # all of them have the same
            self._due_by(campaign, rows[0]["due"])
        for row in rows:
            place = campaign.id, row["number"]
            self.decisions[place] = row
            self._looked.add(place)
            if row["unit"] is not None:
                self.units[campaign.id, row["unit"]] = row["number"]

    def settle(self, campaign: Campaign, decision: dict[str, Any], value: float | None, kind: str) -> None:
        """Count what a decision's arm paid, or (None) give it up."""
        learned = decision["source"] != HOLDOUT
        campaign.learn(decision["arm"], value, learned)
        campaign.settled += 1
        row = {
            "campaign": campaign.id,
            "number": decision["number"],
            "seq": campaign.settled,
            "at": self.at,
            "arm": decision["arm"],
            "value": value,
            "kind": kind,
            "learned": learned,
        }
        self._new["rewards"].append(row)
        self.rewards[campaign.id, decision["number"]] = row

    def _due_by(self, campaign: Campaign, due: float) -> None:
        known = campaign.counters.next_due
        if known is None or due < known:
            campaign.counters = campaign.counters._replace(next_due=due)
            self.touch(campaign)

    def expired(self, campaign: Campaign, number: int, next_due: float | None) -> None:
        """Up to this number every decision that is stored is settled, or has no deadline; the next of them passes then."""
        campaign.counters = campaign.counters._replace(expired=number, next_due=next_due)
        self.touch(campaign)
        for row in self._new["decisions"]:  # those of this transaction are not stored yet
            if row["campaign"] == campaign.id and row["due"] is not None:
                self._due_by(campaign, row["due"])

    def refuse(self, campaign: Campaign, number: int, code: str, message: str) -> None:
        """Keep a reward that was refused, for whoever looks into it."""
        campaign.counters = campaign.counters._replace(refused=campaign.counters.refused + 1)
        self.touch(campaign)
        row = {"campaign": campaign.id, "seq": campaign.counters.refused, "at": self.at}
        self._new["refusals"].append({**row, "number": number, "code": code, "message": message})

    def touch(self, campaign: Campaign) -> None:
        """Its counters changed by themselves."""
        self._touched.add(campaign.id)

    def answer_to(self, campaign: Campaign, key: str, asked: str, numbers: list[int]) -> None:
        row = {"campaign": campaign.id, "key": key, "asked": asked, "numbers": json.dumps(numbers), "at": self.at}
        self._new["requests"].append(row)
        self.requests[campaign.id, key] = row

    def tell(self, campaign: Campaign, kind: str, message: str) -> None:
        """Keep an event for the campaign's page."""
        self._new["events"].append({"campaign": campaign.id, "at": self.at, "kind": kind, "message": message})

    def change(self, campaign: Campaign, **values: Any) -> None:
        """Change a campaign's row; other processes see the new version and load it anew."""
        version = campaign.counters.version + 1
        self.connection.execute(update(campaigns).where(campaigns.c.id == campaign.id).values(version=version, **values))
        campaign.counters = campaign.counters._replace(version=version)
        self.touch(campaign)

    @property
    def changed(self) -> int:
        """What ``campaigns.changed`` becomes: later than all that whoever looks has seen; see ``changes``."""
        if self._changed is None:
            self._changed = changes.stamp(self.connection)
        return self._changed

    def write(self) -> None:
        """Everything that waits, a statement a table."""
        for campaign in self.campaigns.values():
            self._notice(campaign)
        tables = {"decisions": decisions, "rewards": rewards, "refusals": refusals, "requests": requests, "events": events}
        for name, table in tables.items():
            if self._new[name]:
                self.connection.execute(insert(table), self._new[name])
        moved = []
        for campaign in self.campaigns.values():
            now = campaign.counters._replace(decided=campaign.decided, settled=campaign.settled)
            if now != campaign.counters or campaign.id in self._touched:
                counted = {name: getattr(now, name) for name in _NAMES if name != "changed"}
                moved.append({"row": campaign.id, **counted, "changed": self.changed})
                campaign.counters = now
            self._keep(campaign)
        if moved:
            self.connection.execute(_COUNTED, moved)

    def _notice(self, campaign: Campaign) -> None:
        """Say it once when an arm's rewards begin to contradict the model."""
        doubted = campaign.policy.doubted
        if doubted != campaign.doubted:
            campaign.doubted = doubted
            if doubted:
                whom = blame(doubted, campaign.policy.suspects)
                message = (
                    f"The rewards contradict the model: it is wrong about {whom}. Only their own rewards count for "
                    f"{', '.join(doubted)}."
                )
                self.tell(campaign, "contradicted", message)

    def _keep(self, campaign: Campaign) -> None:
        """Store the policy's state now and then."""
        news = campaign.decided - campaign.snapshot_decided + campaign.settled - campaign.snapshot_settled
        if news >= SNAPSHOT_EVERY:
            campaign.snapshot_decided, campaign.snapshot_settled = campaign.decided, campaign.settled
            values = {"snapshot_decided": campaign.decided, "snapshot_settled": campaign.settled}
            text = json.dumps(campaign.policy.state())
            self.connection.execute(update(campaigns).where(campaigns.c.id == campaign.id).values(snapshot=text, **values))


def load(connection: Connection, row: int, problem: Problem | None = None) -> Campaign:
    """A campaign from the database, knowing what its snapshot knew; ``catch_up`` brings the rest."""
    return Campaign(connection.execute(select(campaigns).where(campaigns.c.id == row)).one(), problem)


def catch_up(connection: Connection, campaign: Campaign, counters: Counters) -> None:
    """Take in what other processes, or a former one, decided, counted and changed."""
    if campaign.counters.version != counters.version:
        config = connection.execute(select(campaigns.c.config).where(campaigns.c.id == campaign.id)).scalar_one()
        campaign.reconfigure(Config.model_validate_json(config))
    campaign.follow(connection, counters)
