"""Two Hypothesis profiles: ``quick`` is the same in every run; ``long`` looks further, for nights. One Spark for all."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

CALM = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "quick", max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=CALM
)
settings.register_profile(
    "long", max_examples=5_000, deadline=None, print_blob=True, suppress_health_check=CALM
)
settings.load_profile(os.environ.get("EVERCURRENT_TEST_PROFILE", "quick"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """With ``--dist loadgroup`` all tests of ``tests/spark`` go to one worker, for each worker would start a Spark of its own.

    Marks would say so too, but pytest-xdist 3.8 writes them into names where pytest 9.2 does not look.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class OneSpark(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith("tests/spark/") else str(super()._split_scope(nodeid))

    return OneSpark(config, log)
