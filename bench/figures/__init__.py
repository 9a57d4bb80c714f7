"""One file per question: which programs run, what they are compared with, what the targets are."""

from bench.figures import (
    chain,
    deep,
    durability,
    fixed_windows,
    growth,
    memory,
    one_row,
    open_windows,
    readers,
    retail,
    sessions,
    spark_chain,
    spark_one_row,
    spark_state,
    state,
    wide,
)

FIGURES = {
    "chain": chain.measure,
    "state": state.measure,
    "one-row": one_row.measure,
    "readers": readers.measure,
    "memory": memory.measure,
    "retail": retail.measure,
    "sessions": sessions.measure,
    "open-windows": open_windows.measure,
    "fixed-windows": fixed_windows.measure,
    "durability": durability.measure,
    "growth": growth.measure,
    "wide": wide.measure,
    "deep": deep.measure,
    "spark-chain": spark_chain.measure,
    "spark-one-row": spark_one_row.measure,
    "spark-state": spark_state.measure,
}
