"""One file per question: which programs run, what they are compared with, what the targets are."""

from bench.figures import chain, memory, one_row, retail, state

FIGURES = {
    "chain": chain.measure,
    "state": state.measure,
    "one-row": one_row.measure,
    "memory": memory.measure,
    "retail": retail.measure,
}
