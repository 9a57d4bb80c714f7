"""Two Hypothesis profiles: ``quick`` is the same in every run; ``long`` looks further, for nights. One Spark for all."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from evercurrent.core.data.tags import refuse_untagged

refuse_untagged()

CALM = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "quick", max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=CALM
)
settings.register_profile(
    "long", max_examples=5_000, deadline=None, print_blob=True, suppress_health_check=CALM
)
settings.load_profile(os.environ.get("EVERCURRENT_TEST_PROFILE", "quick"))


WITHOUT_THE_SESSION = (
    "test_buckets", "test_cases_in_buckets", "test_examples", "test_spark_connect", "test_spark_faults", "test_spark_kill",
    "test_spark_versions",
)  # fmt: skip
"""Files of ``tests/spark`` that need no Spark, or start one of their own."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """With ``--dist loadgroup`` the tests on a Spark go to one worker, for each worker would start a session of its own.

    Marks would say so too, but pytest-xdist 3.8 writes them into names where pytest 9.2 does not look.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class OneSpark(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder, _, name = nodeid.partition("tests/spark/")
            shares = not folder and name and name.partition(".py")[0] not in WITHOUT_THE_SESSION
            return "spark" if shares else str(super()._split_scope(nodeid))

    return OneSpark(config, log)
