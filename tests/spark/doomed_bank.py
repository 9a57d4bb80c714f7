"""The bank as a program that is killed: see ``doomed_query``, whose session and way it has.

python -m spark.doomed_bank FOLDER -1
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import bank
import evercurrent as ec
from spark.doomed_query import begun, started_session


def run_to_the_end(spark: Any, folder: Path) -> None:
    """Run the query in this session until the input ends."""
    engine = ec.Engine()
    bank.declare(engine)
    begun(spark, folder, engine, "transfers", bank.TRANSFERS).await_termination()


if __name__ == "__main__":
    run_to_the_end(started_session(), Path(sys.argv[1]))
