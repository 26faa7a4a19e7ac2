"""A client for the decision service, with retries that count nothing twice.

Every decision is asked for under an idempotency key, and a reward counts once however often it is sent: so both are sent again
when the connection breaks or the service says that it could not record them.

    with Client("http://127.0.0.1:8000", key="hw_…") as service:
        decision = service.decide("two-ads", unit="visitor-17")
        service.reward(decision, 2)
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    import httpx2

__all__ = ["Client", "Decision", "RefusedError", "RewardResult", "UnavailableError"]

AGAIN = (429, 502, 503, 504)
"""Statuses after which nothing was recorded, or asking again is safe."""
LONGEST = 10.0
"""Seconds to wait between two tries, at most."""


class RefusedError(HeadwaterError):
    """The service refused a request: ``status`` of HTTP, ``code`` for programs, ``details`` with everything wrong."""

    def __init__(self, status: int, code: str, message: str, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status, self.code, self.details = status, code, tuple(details)


class UnavailableError(HeadwaterError):
    """The service did not answer, also when asked again; the same call may be made later, and counts nothing twice."""


@dataclass(frozen=True)
class Decision:
    """What to show; ``repeated`` if it was decided before, for the same unit or key."""

    id: str
    arm: str
    propensity: float | None
    policy: str
    version: int
    source: str
    reason: str
    choice: str
    unit: str | None
    repeated: bool
    at: str


@dataclass(frozen=True)
class RewardResult:
    """How many rewards were counted, had been counted before, and were refused (each with its reason)."""

    counted: int
    repeated: int
    refused: tuple[Mapping[str, str], ...]


def _decision(body: Mapping[str, Any]) -> Decision:
    return Decision(**{field.name: body.get(field.name) for field in fields(Decision)})  # type: ignore[arg-type]


def _backoff(attempt: int, asked: str | None) -> float:
    """Seconds before the next try: what the service asked for, else twice as long each time, spread by chance."""
    try:
        wanted = float(asked) if asked is not None else 0.0
    except ValueError:
        wanted = 0.0
    return min(max(wanted, 0.05 * float(2**attempt) * random.uniform(0.5, 1.5)), LONGEST)


class Client:
    """One service. Safe to use from several threads."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 10.0,
        retries: int = 5,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            import httpx2
        except ImportError:
            raise HeadwaterError('the client needs httpx2: pip install "headwater[client]"') from None
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout, transport=transport)
        self._broken: type[Exception] = httpx2.TransportError
        self._unsent: tuple[type[Exception], ...] = (httpx2.ConnectError, httpx2.ConnectTimeout)
        self.retries, self._sleep = retries, sleep

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # Decisions and rewards.

    def decide(self, campaign: str, *, unit: str | None = None, shown: str | None = None, key: str | None = None) -> Decision:
        """One decision. ``unit``: the same one gets the same decision again. ``shown``: the arm you show, in shadow mode."""
        body = {name: value for name, value in (("unit", unit), ("shown", shown)) if value is not None}
        return _decision(self._decide(campaign, body, key))

    def decide_many(
        self, campaign: str, count: int | None = None, *, units: Sequence[str] | None = None, key: str | None = None
    ) -> list[Decision]:
        """Many decisions in one request: so many, or one for each unit."""
        body = {"count": count} if units is None else {"units": list(units)}
        return [_decision(one) for one in self._decide(campaign, body, key)["decisions"]]

    def reward(self, decision: Decision | str, value: float) -> bool:
        """Count what a decision paid; False if it had been counted before."""
        name = decision.id if isinstance(decision, Decision) else decision
        told = self._send("POST", f"/v1/decisions/{quote(name, safe='')}/reward", {"value": value}, again=True)
        return bool(told["status"] == "counted")

    def rewards(self, rewards: Iterable[tuple[Decision | str, float]]) -> RewardResult:
        """Count many; each is counted or refused for itself."""
        items = [{"decision": d.id if isinstance(d, Decision) else d, "value": value} for d, value in rewards]
        told = self._send("POST", "/v1/rewards", {"rewards": items}, again=True)
        return RewardResult(told["counted"], told["repeated"], tuple(told["refused"]))

    # Campaigns.

    def create_campaign(self, name: str, problem: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        """A new campaign from a problem in the shape of a problem file (``Problem.to_dict()``)."""
        body = {"name": name, "problem": dict(problem), **settings}
        return self._send("POST", "/v1/campaigns", body, again=False)

    def campaigns(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._send("GET", "/v1/campaigns", again=True)["campaigns"]
        return found

    def campaign(self, campaign: str) -> dict[str, Any]:
        return self._read(campaign, "")

    def pause(self, campaign: str) -> dict[str, Any]:
        return self._change(campaign, "/pause")

    def resume(self, campaign: str) -> dict[str, Any]:
        return self._change(campaign, "/resume")

    def archive(self, campaign: str) -> dict[str, Any]:
        return self._change(campaign, "/archive")

    def switch_arm(self, campaign: str, arm: str, *, enabled: bool) -> dict[str, Any]:
        return self._change(campaign, "/arms", {"arm": arm, "enabled": enabled})

    # What is known.

    def explanation(self, campaign: str) -> dict[str, Any]:
        """What would be shown next, and where every arm stands; ``text`` is for people."""
        return self._read(campaign, "/explanation")

    def latent(self, campaign: str, confidence: float = 0.95, holds: str = "each") -> dict[str, Any]:
        """Who comes: the likeliest mix of X, with intervals that hold for "each" value, for "all" at once, or "always"."""
        return self._read(campaign, f"/latent?confidence={confidence}&holds={holds}")

    def report(self, campaign: str) -> dict[str, Any]:
        """Which arm is best and how sure that is, means with intervals, regret avoided, alarms."""
        return self._read(campaign, "/report")

    # Underneath.

    def _decide(self, campaign: str, body: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        return self._send("POST", f"/v1/campaigns/{quote(campaign, safe='')}/decisions", body, headers=headers, again=True)

    def _read(self, campaign: str, what: str) -> dict[str, Any]:
        return self._send("GET", f"/v1/campaigns/{quote(campaign, safe='')}{what}", again=True)

    def _change(self, campaign: str, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._send("POST", f"/v1/campaigns/{quote(campaign, safe='')}{what}", body, again=True)

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        again: bool,
    ) -> dict[str, Any]:
        """One request. ``again``: sending it twice is the same as once, so that it may be, after any failure."""
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                answer = self._http.request(method, path, json=body, headers=dict(headers or {}))
            except self._broken as error:
                if last or not (again or isinstance(error, self._unsent)):
                    raise UnavailableError(f"{self._http.base_url} does not answer: {error}") from None
                self._sleep(_backoff(attempt, None))
                continue
            if answer.status_code not in AGAIN:
                return self._understood(answer)
            if last:
                raise UnavailableError(f"{self._http.base_url} refuses for now: {self._message(answer)['message']}")
            self._sleep(_backoff(attempt, answer.headers.get("Retry-After")))
        raise AssertionError("the last try returns or raises")

    def _understood(self, answer: httpx2.Response) -> dict[str, Any]:
        if answer.status_code >= 400:
            told = self._message(answer)
            raise RefusedError(answer.status_code, told["code"], told["message"], told.get("details", ()))
        body: dict[str, Any] = answer.json()
        return body

    def _message(self, answer: httpx2.Response) -> dict[str, Any]:
        """The service's error, or what a proxy in between said."""
        try:
            told: dict[str, Any] = answer.json()["error"]
            return {"code": str(told["code"]), "message": str(told["message"]), "details": told.get("details", ())}
        except (ValueError, KeyError, TypeError):
            return {"code": "error", "message": f"HTTP status {answer.status_code}"}
