"""How tests are shared out among the processes of pytest-xdist: what stays together, and what begins first."""

from __future__ import annotations

WITHOUT_THE_SESSION = (
    "test_bank_in_buckets", "test_buckets", "test_cases_in_buckets", "test_clocks_in_buckets", "test_cluster", "test_cluster_kills", "test_deploy",
    "test_early_worker", "test_frame_hints", "test_limits_in_buckets", "test_preflight", "test_spark_faults", "test_spark_versions",
)  # fmt: skip
"""Files of ``tests/spark`` that need no Spark, or start one of their own."""


LONGEST_FIRST = (
    "spark/test_query.py", "spark/test_cluster.py", "spark/test_spark_faults.py", "laws/test_value_of_its_row.py", "laws/test_damage.py",
    "views/test_cli_streams.py", "views/test_testing_kit.py", "durability/test_store_faults.py", "durability/test_worker_checkpoints.py",
    "test_typed_examples.py", "laws/test_eventtime_state.py", "laws/test_merging_windows.py", "identity/test_renaming.py",
    "laws/test_latest.py", "durability/test_growth.py", "core/test_retracted_heads.py", "durability/test_kill.py",
    "durability/test_kept_checkpoint.py", "test_users_types.py",
)  # fmt: skip
"""Files of tests that begin before all others, the longest first: what is short fills up the end, when nothing is left to share.

The first one is of the session of Spark, with all that share it.
"""


IN_ANOTHER_PROCESS = (
    "test_another_process_gives_the_same_bytes",
    "test_identities_are_the_same_in_another_process",
)
"""Tests that use the same process, see ``other_process``."""


WITH_ANOTHER = {
    "tests/spark/test_deploy.py": "tests/spark/test_cluster.py",
    "tests/spark/test_cluster_kills.py": "tests/spark/test_cluster.py",
}
"""Files whose tests use what those of another file use: the archive of this environment, which takes seconds to pack."""


def together(nodeid: str) -> str:
    """What the tests of one worker have in common.

    >>> together("tests/spark/test_query.py::test_batch"), together("tests/laws/test_undo.py::test_any[x]")
    ('spark', 'tests/laws/test_undo.py')
    """
    file, _, test = nodeid.partition("::")
    file = WITH_ANOTHER.get(file, file)
    if test.partition("[")[0] in IN_ANOTHER_PROCESS:
        return "another process"
    folder, _, name = file.partition("tests/spark/")
    return "spark" if not folder and name and name.partition(".py")[0] not in WITHOUT_THE_SESSION else file


def rank(nodeid: str) -> int:
    """The place of a test's file among those that begin first; one for all the others."""
    file = nodeid.partition("::")[0].removeprefix("tests/")
    return LONGEST_FIRST.index(file) if file in LONGEST_FIRST else len(LONGEST_FIRST)
