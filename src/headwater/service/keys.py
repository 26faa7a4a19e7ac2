"""Keys: who may do what. A key is shown once, when it is made; the database has only its hash.

A key reads ``hw_<id>_<secret>``. The secret has 256 random bits, so that one SHA-256 is as good as a slow hash: there is
nothing to guess. Comparison takes the same time wherever the first difference is.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, insert, select, update

from headwater.errors import ProblemError
from headwater.service.tables import keys

ROLES = ("read", "decide", "admin")
"""Each may do what those before it may: read everything; ask for decisions and report rewards; change everything."""


class Key(NamedTuple):
    id: str
    name: str
    role: str
    hash: str
    created: float
    revoked: float | None


def allows(role: str, needed: str) -> bool:
    return ROLES.index(role) >= ROLES.index(needed)


def secret_hash(secret: str) -> str:
    """What the database keeps of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create_key(connection: Connection, name: str, role: str) -> tuple[str, Key]:
    """A new key: the text that its owner keeps, and what is stored."""
    if role not in ROLES:
        raise ProblemError(f'role: got "{role}"; expected {", ".join(ROLES[:-1])} or {ROLES[-1]}')
    if not 0 < len(name) <= 200 or not name.isprintable():
        raise ProblemError("name: expected 1 to 200 printable characters, to tell keys apart by")
    secret = secrets.token_urlsafe(32)
    key = Key(secrets.token_hex(4), name, role, secret_hash(secret), time.time(), None)
    connection.execute(insert(keys), [key._asdict()])
    return f"hw_{key.id}_{secret}", key


def list_keys(connection: Connection) -> list[Key]:
    return [Key(*row) for row in connection.execute(select(*(keys.c[name] for name in Key._fields)).order_by(keys.c.created))]


def revoke_key(connection: Connection, id: str) -> None:  # noqa: A002 - the word users see
    done = connection.execute(update(keys).where(keys.c.id == id, keys.c.revoked.is_(None)).values(revoked=time.time()))
    if done.rowcount != 1:
        raise ProblemError(f'id: got "{id}"; expected a key that is in use (headwater key list)')


def find_key(text: str, known: Mapping[str, Key]) -> Key | None:
    """The key that a request carries, if it is one of those known and in use."""
    prefix, _, rest = text.partition("_")
    id_, _, secret = rest.partition("_")
    key = known.get(id_)
    # an unknown id costs the same work as a known one
    same = hmac.compare_digest(secret_hash(secret), key.hash if key is not None else "0" * 64)
    return key if prefix == "hw" and same and key is not None and key.revoked is None else None
