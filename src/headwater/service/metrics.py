"""What Prometheus reads: counts and times of this process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headwater.service.desk import Desk, Watch

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics(Watch):
    """One registry per service, so that several in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here = self.registry
        self.requests = Counter("headwater_http_requests_total", "HTTP requests.", ["route", "status"], registry=here)
        self.seconds = Histogram("headwater_http_seconds", "Time to answer.", ["route"], buckets=_BUCKETS, registry=here)
        self.decisions = Counter("headwater_decisions_total", "Decisions made.", ["campaign"], registry=here)
        self.rewards = Counter(
            "headwater_rewards_total", "Rewards, by what became of them.", ["campaign", "status"], registry=here
        )
        self.commits = Histogram("headwater_commit_seconds", "Time of a transaction.", buckets=_BUCKETS, registry=here)
        self.shared = Histogram(
            "headwater_commit_operations",
            "Requests that shared it.",
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
            registry=here,
        )
        self.closed = Counter("headwater_connections_closed_total", "Connections closed by limits.", ["why"], registry=here)
        self.failures = Counter("headwater_database_failures_total", "Transactions that failed.", registry=here)
        self.pending = Gauge("headwater_pending", "Decisions whose reward is still to come.", ["campaign"], registry=here)
        self.contradicted = Gauge("headwater_contradicted_arms", "Arms that contradict the model.", ["campaign"], registry=here)
        self._routes: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        found = self._routes.get((route, status))
        if found is None:
            found = self._routes[route, status] = (self.requests.labels(route, str(status)), self.seconds.labels(route))
        found[0].inc()
        found[1].observe(seconds)

    def committed(self, count: int, seconds: float) -> None:
        self.commits.observe(seconds)
        self.shared.observe(count)

    def failed(self) -> None:
        self.failures.inc()

    def text(self, desk: Desk) -> bytes:
        for slug, campaign in list(desk.campaigns.items()):
            self.pending.labels(slug).set(campaign.decided - campaign.settled)
            self.contradicted.labels(slug).set(len(campaign.doubted))
        return generate_latest(self.registry)
