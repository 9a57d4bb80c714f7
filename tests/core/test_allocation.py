"""Memory that an epoch frees is there for the next one, without pages that the system clears again."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

FREES_TWICE = """
import resource
import numpy as np
from evercurrent.core.data.allocation import expect_large_arrays, give_back

expect_large_arrays()

def epoch():
    return sum(array.nbytes for array in [np.ones(3 << 17) for _ in range(32)])

def faults_of(work):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

epoch()
again = faults_of(epoch)
give_back()
print(again, faults_of(epoch))
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries keep memory in their own ways"
)
def test_an_epoch_takes_the_pages_of_the_one_before() -> None:
    again, after_it_was_given_back = map(int, _output_of(FREES_TWICE).split())
    assert again < 1_000
    assert after_it_was_given_back > 10_000


def _output_of(program: str) -> str:
    # A process of its own: in this one, what other tests have freed would be taken.
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    process = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return process.stdout
