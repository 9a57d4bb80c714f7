"""The keys of named subscriptions in a commit: each stands for one view and one name."""

from __future__ import annotations

from collections.abc import Iterable

BETWEEN = "\0"
"""Between view and name where one of them has a slash. No name has this character."""


def reader_key(view: str, name: str) -> str:
    """Return the key of a named subscription in a commit.

    >>> reader_key("totals", "mail"), reader_key("shop/totals", "mail")
    ('totals/mail', 'shop/totals\\x00mail')
    """
    return f"{view}{BETWEEN}{name}" if "/" in view + name else earlier_key(view, name)


def earlier_key(view: str, name: str) -> str:
    """Return the key that earlier versions wrote: with slashes in the names, that of several pairs of them."""
    return f"{view}/{name}"


def is_of(key: str, view: str) -> bool:
    """Return whether a key is of a view; one of an earlier version may be of several."""
    return key.startswith(view + (BETWEEN if BETWEEN in key else "/"))


def view_of(key: str, views: Iterable[str]) -> str | None:
    """Return the view of a named subscription by its key in a commit. None: it is of no other view.

    Of the views that the key of an earlier version may be of it is the one with the longest name.
    """
    return max((view for view in views if is_of(key, view)), key=len, default=None)


def shown_key(key: str) -> str:
    """Return a key to be read by people."""
    return key.replace(BETWEEN, "/")
