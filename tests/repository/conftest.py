"""How many random layouts: thousands in a run of its own, fewer where a broken copy must fail."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)

# To make a failing layout smaller takes minutes of git; the steps that are printed are few enough.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)

settings.register_profile(
    "layouts", max_examples=8, deadline=None, suppress_health_check=SLOW, phases=PHASES
)
settings.register_profile(
    "many layouts", max_examples=200, deadline=None, suppress_health_check=SLOW, phases=PHASES
)
settings.register_profile(
    "mutation",
    max_examples=40,
    deadline=None,
    suppress_health_check=SLOW,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
)
