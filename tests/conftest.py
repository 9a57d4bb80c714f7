"""Two Hypothesis profiles: ``quick`` is the same in every run; ``long`` looks further, for nights."""

import os

from hypothesis import HealthCheck, settings

CALM = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "quick", max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=CALM
)
settings.register_profile(
    "long", max_examples=5_000, deadline=None, print_blob=True, suppress_health_check=CALM
)
settings.load_profile(os.environ.get("EVERCURRENT_TEST_PROFILE", "quick"))
