"""What comes and goes leaves nothing: not in the views, and not in the state."""

from hypothesis import assume, given

from harness import Running
from oracle import TooLargeError
from strategies import Case, Epoch, cases


def negated(epoch: Epoch) -> Epoch:
    return {name: [(row, -diff) for row, diff in given] for name, given in epoch.items()}


def undone(case: Case) -> list[Epoch]:
    return [negated(epoch) for epoch in reversed(case.epochs)]


@given(case=cases())
def test_input_and_its_opposite_leave_nothing(case: Case) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    fresh = Running(case)
    fresh.push({})
    running = Running(case).push_all()
    for epoch in undone(case):
        running.push(epoch)
    assert running.contents() == fresh.contents()
    for name, view in running.views.items():
        assert view.read().sort(view.schema.names(), nulls_last=True).equals(fresh.views[name].read())
