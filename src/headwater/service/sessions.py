"""Sessions: people who signed in with a key. The browser's cookie opens the session, not the key, and signing out ends it.

As with keys, the database has only the hash of what the cookie holds.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select

from headwater.service.batch import Batch
from headwater.service.keys import secret_hash
from headwater.service.operations import Operation
from headwater.service.tables import sessions

SECONDS = 30 * 86400
"""How long a session lasts."""
MOST = 50
"""Sessions of one key; another one ends the oldest."""


class Session(NamedTuple):
    id: str
    hash: str
    key: str
    created: float
    expires: float


def list_sessions(connection: Connection, at: float) -> dict[str, Session]:
    """Those that have not expired."""
    query = select(*(sessions.c[name] for name in Session._fields)).where(sessions.c.expires > at)
    return {row.id: Session(*row) for row in connection.execute(query)}


def find_session(text: str, known: Mapping[str, Session]) -> Session | None:
    """The session that a cookie opens."""
    id_, _, secret = text.partition("_")
    session = known.get(id_)
    same = hmac.compare_digest(secret_hash(secret), session.hash if session is not None else "0" * 64)
    return session if same else None


@dataclass
class SignIn(Operation):
    """Begin a session of a key: the text for the cookie, and what is stored."""

    key: str

    def slugs(self) -> set[str]:
        return set()

    def run(self, batch: Batch) -> tuple[str, Session]:
        own = sessions.c.key == self.key
        batch.connection.execute(delete(sessions).where(sessions.c.expires <= batch.at))
        kept = select(sessions.c.id).where(own).order_by(sessions.c.created.desc()).limit(MOST - 1)
        latest = list(batch.connection.execute(kept).scalars())
        batch.connection.execute(delete(sessions).where(own, sessions.c.id.not_in(latest)))
        secret = secrets.token_urlsafe(32)
        made = Session(secrets.token_hex(8), secret_hash(secret), self.key, batch.at, batch.at + SECONDS)
        batch.connection.execute(insert(sessions), [made._asdict()])
        return f"{made.id}_{secret}", made


@dataclass
class SignOut(Operation):
    """End a session."""

    session: str

    def slugs(self) -> set[str]:
        return set()

    def run(self, batch: Batch) -> None:
        batch.connection.execute(delete(sessions).where(sessions.c.id == self.session))
