"""One profile for every property test: the same cases on every run, and no clock."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

settings.register_profile(
    "headwater",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("headwater")

# Hypothesis also draws constants it finds in whatever local modules happen to be loaded. That depends on the order of tests and
# on every edit of the source, so the cases would not be the same on every run.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants
