"""Runs measured programs: each in a fresh process, in interleaved rounds, one at a time.

Interleaved means: round 1 runs every contender once, then round 2 does, and so on, each round starting one
contender later than the round before. A slow minute of the machine so falls on all contenders and not on
one. `wall` is the life of the whole process, interpreter start and imports included; what a program reports
about itself leaves those out.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.reply import Fields, receive

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Program:
    """One contender: a module, the arguments it gets and the interpreter that runs it."""

    label: str
    module: str
    arguments: tuple[str, ...] = ()
    python: str = sys.executable
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What came of one run: the fields of the reply, or the reason why there is none."""

    wall: float
    reply: Fields = field(default_factory=dict)
    failure: str | None = None


def run(program: Program, timeout: float) -> Outcome:
    """Run a program to its end, or end it (and what it started) when `timeout` seconds are over."""
    command = [program.python, "-m", program.module, *program.arguments]
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **program.variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, complaints = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return Outcome(timeout, failure=f"no answer within {timeout:g} s")
    finally:
        if process.poll() is None:
            _end_session(process)
    wall = time.perf_counter() - started
    reply = receive(output)
    if process.returncode != 0 or reply is None:
        return Outcome(
            wall, failure=_last_line(complaints) or f"ended with {process.returncode} and no answer"
        )
    return Outcome(wall, reply)


def interleave(
    programs: Sequence[Program], runs: int, timeout: float, report: Callable[[str], None]
) -> dict[str, list[Outcome]]:
    """Run all programs `runs` times, round by round. A program that failed once is not tried again."""
    outcomes: dict[str, list[Outcome]] = {program.label: [] for program in programs}
    for number in range(runs):
        start = number % max(len(programs), 1)
        for program in [*programs[start:], *programs[:start]]:
            if any(outcome.failure for outcome in outcomes[program.label]):
                continue
            report(f"round {number + 1} of {runs}: {program.label}")
            outcomes[program.label].append(run(program, timeout))
    return outcomes


def _end_session(process: subprocess.Popen[str]) -> None:
    """The process leads a session of its own, so this reaches its children (a JVM) and nobody else."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
