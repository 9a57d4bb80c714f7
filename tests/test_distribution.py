"""The tables of ``distribution`` name tests that there are."""

from __future__ import annotations

from pathlib import Path

from distribution import IN_ANOTHER_PROCESS, LONGEST_FIRST, WITH_ANOTHER, WITHOUT_THE_SESSION, rank, together

TESTS = Path(__file__).resolve().parent


def test_every_file_that_is_named_is_there() -> None:
    for file in (*LONGEST_FIRST, *(f"spark/{name}.py" for name in WITHOUT_THE_SESSION)):
        assert (TESTS / file).is_file(), file
    for file in (*WITH_ANOTHER, *WITH_ANOTHER.values()):
        assert (TESTS.parent / file).is_file(), file


def test_every_test_that_is_named_is_there() -> None:
    texts = [path.read_text("utf-8") for path in TESTS.rglob("test_*.py")]
    for name in IN_ANOTHER_PROCESS:
        assert any(f"def {name}(" in text for text in texts), name


def test_the_session_of_spark_is_of_one_process_and_begins_first() -> None:
    """Its other files come with the first of them, whatever their place."""
    assert (
        together(f"tests/{LONGEST_FIRST[0]}::test_batch")
        == "spark"
        == together("tests/spark/test_types.py::test_x[1]")
    )
    assert together("tests/spark/test_cluster.py::test_on_a_cluster") == "tests/spark/test_cluster.py"
    assert (
        together("src/evercurrent/spark_bridge/deploy.py::archive")
        == "src/evercurrent/spark_bridge/deploy.py"
    )
    assert (
        rank(f"tests/{LONGEST_FIRST[1]}::test_a") < rank("tests/test_site.py::test_a") == rank("src/x.py::x")
    )
