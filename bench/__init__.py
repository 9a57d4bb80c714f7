"""Benchmarks of evercurrent: programs that any user can run, through public names only.

`run.py` is the door. A *figure* (bench/figures) asks one question and knows its targets; a *program*
(bench/programs, bench/peers) is one contender in a process of its own that answers with one line of JSON.
This module and `reply` need nothing but the standard library, so a peer can import them from an environment
that has no polars.
"""
