"""What became of a write is found out until it is known, however an attempt to find it out ends."""

from __future__ import annotations

import pytest

from evercurrent.core.data.errors import CheckpointError
from evercurrent.views.durability.last_write import LastWrite, UnknownError

ENDS = [UnknownError("nobody can read it"), KeyboardInterrupt(), MemoryError()]


@pytest.mark.parametrize("first", ENDS, ids=repr)
@pytest.mark.parametrize("second", ENDS, ids=repr)
@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_written_before_it_is_known(
    first: BaseException, second: BaseException, is_there: bool
) -> None:
    last, ends = LastWrite("kept"), [first, second]

    def find_out() -> bool:
        if ends:
            raise ends.pop(0)
        return is_there

    with pytest.raises(type(first)):
        last.attempt(find_out)
    with pytest.raises(type(second)):
        last.require_known()
    for _ in range(2):
        if is_there:
            with pytest.raises(CheckpointError, match=r"kept: the epoch .* is committed; make a new engine"):
                last.require_known()
        else:
            last.require_known()


def test_an_engine_that_cannot_go_on_does_not_find_out_again() -> None:
    last, calls = LastWrite("kept"), []

    def find_out() -> bool:
        calls.append(1)
        raise CheckpointError("kept: another writer has committed since")

    for work in (lambda: last.attempt(find_out), last.require_known, last.require_known):
        with pytest.raises(CheckpointError, match="another writer"):
            work()
    assert len(calls) == 1
