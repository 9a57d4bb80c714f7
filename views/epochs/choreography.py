"""An epoch is choreographed here, once: for states in memory, on disk, and in buckets that may be in other processes.

    the input is checked, and has its turn       (the caller: nothing has begun)
    watermarks by hand -> log the input -> evaluate -> deliver first -> write     may fail, and may be interrupted
    append                                       the commit point: before it nothing is real, behind it all is
    commit states and clocks -> publish          cannot fail
    notify subscribers -> tidy                   the epoch is done, whatever they raise

What fails up to and including the commit point has changed nothing: states and clocks are those of the last commit, what
was written is named by no record, and the same input can be taken again.

Three roles take part. An ``Evaluator`` computes the epoch: the circuit of this process, or stages over buckets. A
``Keeper`` makes it outlive the process: nothing in memory, a checkpoint's log of inputs and commits, or the commits of
buckets. An ``Audience`` learns of it.

The order is the same for all, but for one step. Subscribers in this process are notified behind the commit, each epoch
once: one with a name has its last epoch in the next commit, and catches up after a crash. A sink behind tasks that may run
in another process, such as a function that writes to a table, remembers nothing, and its epoch is never offered again once
it is committed. So it gets the deltas before the commit (``deliver_first``), and again if the epoch is repeated: at least
once. Tasks that run twice need no step of their own: they stage nothing here, what they write has unique names, and only
the results that the evaluator returns are named by the commit.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Generic, Protocol, TypeVar

from evercurrent.core.data.clock import Now
from evercurrent.core.data.errors import InputError

from ..concurrency.interrupts import interruptible, interrupts_deferred

Input = TypeVar("Input")
"""What is taken in an epoch."""

Result = TypeVar("Result")
"""An epoch that was evaluated and is not real yet."""

Input_contra = TypeVar("Input_contra", contravariant=True)
Result_contra = TypeVar("Result_contra", contravariant=True)


class Evaluator(Protocol[Input_contra, Result]):
    """Evaluates epochs: the circuit of this process, or stages over buckets."""

    def promise(self, taken: Input_contra) -> None:
        """Stage the watermarks by hand.

        Raises:
            InputError: one would move back.
        """
        ...

    def evaluate(self, now: Now, taken: Input_contra) -> Result:
        """Return the epoch, with deltas, refused rows and watermarks; all that outlives it is staged."""
        ...

    def commit(self, evaluated: Result) -> None:
        """Make what was staged the states and clocks. Cannot fail."""
        ...

    def discard(self) -> None:
        """Return to the last commit."""
        ...


class Keeper(Protocol[Input_contra, Result_contra]):
    """Makes epochs outlive the process, or does nothing."""

    def log(self, now: Now, taken: Input_contra) -> None:
        """Begin to write the input, where that alone makes the epoch durable."""
        ...

    def write(self, now: Now, evaluated: Result_contra) -> None:
        """Write states and deltas, if they are due. No record names them yet."""
        ...

    def append(self) -> None:
        """Make the epoch real. If this raises it is not, or, where that cannot be known, this keeper takes no other one."""
        ...

    def discard(self) -> None:
        """Drop what was begun."""
        ...

    def tidy(self) -> None:
        """Free memory and disk between two epochs."""
        ...


class Audience(Protocol[Result_contra]):
    """Those who learn of epochs."""

    def deliver_first(self, now: Now, evaluated: Result_contra) -> None:
        """Deliver deltas before the commit to who cannot catch up behind it; may fail, and then there is no epoch."""
        ...

    def changing(self) -> AbstractContextManager[None]:
        """Return the block in which states change, for readers of the states themselves."""
        ...

    def publish(self, now: Now, evaluated: Result_contra) -> None:
        """Show the epoch to readers. Cannot fail."""
        ...

    def notify(self, now: Now, evaluated: Result_contra) -> None:
        """Deliver deltas to subscribers.

        Raises:
            SubscriberError: the epoch is done, and a callback raised.
        """
        ...


class Choreography(Generic[Input, Result]):
    """Runs epochs, one at a time, for one keeper and one audience."""

    def __init__(self, keeper: Keeper[Input, Result], audience: Audience[Result]) -> None:
        self._keeper = keeper
        self._audience = audience
        self._is_running = False

    def make_real(self, evaluator: Evaluator[Input, Result], now: Now, taken: Input) -> Result:
        """Evaluate an epoch, write it, commit it and publish it; or change nothing."""
        if self._is_running:
            raise InputError(
                "an epoch is being evaluated: a function that a view is computed with cannot push; push from a subscriber"
            )
        # Interrupts are deferred but for the first half: what has become real is all there, and nobody misses it.
        with interrupts_deferred():
            self._is_running = True
            try:
                with interruptible():
                    evaluator.promise(taken)
                    self._keeper.log(now, taken)
                    evaluated = evaluator.evaluate(now, taken)
                    self._audience.deliver_first(now, evaluated)
                    self._keeper.write(now, evaluated)
                self._keeper.append()
                with self._audience.changing():
                    evaluator.commit(evaluated)
                    self._audience.publish(now, evaluated)
                return evaluated
            except BaseException:
                evaluator.discard()
                self._keeper.discard()
                raise
            finally:
                self._is_running = False

    def follow_up(self, now: Now, evaluated: Result) -> None:
        """Do what comes behind an epoch that is real: notify subscribers, and tidy.

        Raises:
            SubscriberError: the epoch is done, and a callback raised.
        """
        self._audience.notify(now, evaluated)
        self._keeper.tidy()
