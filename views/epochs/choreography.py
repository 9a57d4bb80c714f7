"""The order of an epoch is defined here, once: for states in memory, on disk, and in buckets that may be in other processes.

    the input is checked, and waits its turn     (by the caller: nothing has begun)
    watermarks by hand -> log the input -> evaluate -> deliver first -> write     may fail, and may be interrupted
    append                                       the commit point: the epoch is real when it returns; without a keeper,
                                                 when all before it have returned
    commit states and clocks -> publish          cannot fail
    notify subscribers -> tidy                   the epoch is done, whatever they raise

If a step up to and including the commit point fails, nothing has changed: states and clocks are those of the last commit,
no record names the files that were written, and the same input can be offered again.

Three roles take part. An ``Evaluator`` computes the epoch: by the circuit of this process, or by stages over buckets. A
``Keeper`` makes the epoch outlive the process: with a checkpoint's log of inputs and commits, or with the commits of
buckets; an engine in memory has none. An ``Audience`` publishes the epoch.

The order is the same for all of them, except for one step. Subscribers in this process are notified after the commit, once
per epoch: the next commit records the last epoch that a named subscription got, and the subscription catches up after a
crash. A sink behind tasks that may run in another process, such as a function that writes to a table, has no such record,
and a committed epoch is never delivered to it again. So it gets the deltas before the commit (``deliver_first``), and again
if the epoch is repeated: at least once. Tasks that run twice need no step of their own: they stage nothing in this process,
the files that they write have unique names, and the commit names only the results that the evaluator returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from evercurrent.core.data.clock import Now
from evercurrent.core.data.errors import InputError

from ..concurrency.interrupts import interruptible, interrupts_deferred

Input = TypeVar("Input")
"""The input of an epoch."""

Result = TypeVar("Result")
"""The result of an epoch that was evaluated and is not committed yet."""

Input_contra = TypeVar("Input_contra", contravariant=True)
Result_contra = TypeVar("Result_contra", contravariant=True)


class Evaluator(Protocol[Input_contra, Result]):
    """Evaluates epochs: the circuit of this process, or stages over buckets."""

    def promise(self, taken_input: Input_contra) -> None:
        """Stage the watermarks that are set by hand.

        Raises:
            InputError: a watermark would move back.
        """
        ...

    def evaluate(self, now: Now, taken_input: Input_contra) -> Result:
        """Return the deltas and watermarks of the epoch; whatever outlives the epoch is staged."""
        ...

    def commit(self, evaluated: Result) -> None:
        """Make what was staged the states and clocks. Cannot fail."""
        ...

    def discard(self) -> None:
        """Return to the last commit."""
        ...


class Keeper(Protocol[Input_contra, Result_contra]):
    """Makes epochs outlive the process."""

    def log(self, now: Now, taken_input: Input_contra) -> None:
        """Begin to write the input, if that alone makes the epoch durable."""
        ...

    def write(self, now: Now, evaluated: Result_contra) -> None:
        """Write states and deltas, if they are due. No record names them yet."""
        ...

    def append(self) -> None:
        """Make the epoch real. If this raises, it is not real; if that is uncertain, the keeper accepts no further epoch."""
        ...

    def discard(self) -> None:
        """Drop what was begun for the epoch."""
        ...

    def tidy(self) -> None:
        """Free memory and disk between two epochs."""
        ...


class Audience(Protocol[Result]):
    """Publishes epochs to readers."""

    def publish(self, now: Now, evaluated: Result, commit: Callable[[Result], None]) -> None:
        """Call ``commit``, which changes states and clocks, and make the epoch visible to readers. Cannot fail.

        It is one step, so that readers of the states themselves can notice that these change.
        """
        ...


class Choreography(Generic[Input, Result]):
    """Runs epochs, one at a time, for one keeper and one audience. Without a keeper epochs are in the states only.

    ``deliver_first`` delivers deltas before the commit to sinks that cannot catch up after it, if there are any. If it fails,
    there is no epoch.
    """

    def __init__(
        self,
        keeper: Keeper[Input, Result] | None,
        audience: Audience[Result],
        deliver_first: Callable[[Now, Result], None] | None = None,
    ) -> None:
        self._keeper = keeper
        self._audience = audience
        self._deliver_first = deliver_first
        self._is_running = False

    @property
    def is_running(self) -> bool:
        """Whether an epoch is being evaluated or committed."""
        return self._is_running

    def make_real(self, evaluator: Evaluator[Input, Result], now: Now, taken_input: Input) -> Result:
        """Evaluate an epoch, write it, commit it and publish it; or change nothing."""
        if self._is_running:
            raise InputError(
                "an epoch is being evaluated: a function that a view uses cannot push; push from a subscriber"
            )
        keeper = self._keeper
        # Only the first half can be interrupted: an epoch that is real is also published.
        with interrupts_deferred():
            self._is_running = True
            try:
                with interruptible():
                    evaluator.promise(taken_input)
                    if keeper is not None:
                        keeper.log(now, taken_input)
                    evaluated = evaluator.evaluate(now, taken_input)
                    if self._deliver_first is not None:
                        self._deliver_first(now, evaluated)
                    if keeper is not None:
                        keeper.write(now, evaluated)
                if keeper is not None:
                    keeper.append()
                self._audience.publish(now, evaluated, evaluator.commit)
                return evaluated
            except BaseException:
                evaluator.discard()
                if keeper is not None:
                    keeper.discard()
                raise
            finally:
                self._is_running = False

    def follow_up(self, notify: Callable[[], None]) -> None:
        """Notify subscribers of an epoch that is real, by this function, and tidy.

        Raises:
            SubscriberError: the epoch is done, and a callback raised.
        """
        try:
            notify()
        finally:
            if self._keeper is not None:
                self._keeper.tidy()
