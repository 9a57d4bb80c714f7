"""Benchmarks of evercurrent: programs that any user can run, through public names only.

`run.py` is the door. A *figure* (bench/figures) answers one question and has its targets; a *program*
(bench/programs, bench/peers) is one contender in a process of its own that answers with one line of JSON.
This module and `reply` need nothing but the standard library, so a peer can import them from an environment
that has no polars.
"""
