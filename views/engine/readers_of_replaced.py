"""The subscriptions and sinks of a view that is replaced: whether they can go on with the view that takes its place."""

from __future__ import annotations

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import listed

from ..dataframe.collection import Collection
from ..epochs.subscriptions import Subscription
from ..sinks.delivery import Delivery
from .consumers import check_reader, require_one_pane
from .view import View
from .view_sinks import DeliverySubscription


def has_same_columns(one: View, other: View) -> bool:
    """Return whether views have the same columns, in the same order."""
    return list(one.schema.items()) == list(other.schema.items())


def require_readers(view: View, other: View) -> None:
    """Check that all subscriptions of a view can go on with the other one that replaces it.

    Raises:
        PlanError: one cannot; names it, and the way out.
    """
    for each in view.subscriptions:
        if each.on_schema is None and not has_same_columns(view, other):
            raise PlanError(
                f"view {view.name!r}: the one that replaces it has other columns, and {each!r} does not take that; close "
                "it first, or subscribe with on_schema="
            )
        _require_follower(each, view.name, other)


def require_up_to_date(view: View, epoch: int) -> None:
    """Check that no subscription of a view whose columns change is behind the last epoch.

    Raises:
        PlanError: one is; names it, and the way out.
    """
    for each in view.subscriptions:
        if each.is_delivering:
            raise PlanError(
                f"view {view.name!r}: the callback of {each!r} is being called, and the view that it replaces has other columns, "
                "so that the epochs it has not got yet would be lost; replace it after the callback has returned: after "
                "push, or from a subscription without a name"
            )
        if each.name is not None and each.delivered < epoch:
            raise PlanError(
                f"view {view.name!r}: {each!r} has not got the epochs after {each.delivered}, as its callback raised or is to be "
                "called after this one; replace it after the next epoch that changes the view, or close it"
            )


def _require_follower(subscription: Subscription, view: str, collection: Collection) -> None:
    """Check that an open subscription of a view may go on with the collection that replaces the view.

    Raises:
        PlanError: its reader does not fit the panes of the collection, or it writes rows by another key.
    """
    if isinstance(subscription, DeliverySubscription) and subscription.delivery is not None:
        require_same_use(subscription.delivery, view, collection)
    else:
        where = f"view {view!r} cannot be replaced while {subscription!r} is open"
        check_reader(where, collection._plan, collection._place, subscription.reader)


def require_same_use(delivery: Delivery, view: str, collection: Collection) -> None:
    """Check that a sink of a view may get the rows of the collection that replaces the view.

    Raises:
        PlanError: they do not fit how the sink uses rows, or have another key than the one by which it writes them.
    """
    plan, place = collection._plan, collection._place
    where = f"view {view!r} cannot be replaced while it is written to {delivery.place}"
    check_reader(where, plan, place, delivery.reader)
    if delivery.reader == "overwriting":
        require_one_pane(where, plan, place)
    keys = plan.keys_of(place)
    if delivery.keys and set(delivery.keys) != set(keys):
        raise PlanError(
            f"{where}, with a row for each {listed(delivery.keys)}: the key of what replaces the view is {listed(keys) or 'none'}; "
            "close that delivery first"
        )
