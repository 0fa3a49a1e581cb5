"""How many random layouts: thousands in a run of its own, fewer where a broken copy must fail."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("layouts", max_examples=220, deadline=None, suppress_health_check=SLOW)
settings.register_profile(
    "mutation",
    max_examples=120,
    deadline=None,
    suppress_health_check=SLOW,
    # To fail is enough; the smallest failure is nobody's business.
    phases=[Phase.generate],
    derandomize=True,
    database=None,
)
