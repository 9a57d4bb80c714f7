"""The url of a database, without its passwords; and the names that a table may have there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from evercurrent.core.data.errors import PlanError, SinkError, first_line

if TYPE_CHECKING:
    import sqlalchemy as sa

SHOWN_OPTIONS = (
    "host",
    "port",
    "service",
    "dbname",
    "database",
    "driver",
    "charset",
    "mode",
    "uri",
    "schema",
)
"""The options of a url that are shown; others may be passwords."""

WRITTEN = 255
"""The most characters of the name of a table, as ``evercurrent_epochs`` holds it."""


def opened(url: str) -> sa.Engine:
    """Return an engine of SQLAlchemy; nothing is connected yet.

    Raises:
        PlanError: the url is none, or its driver is missing.
    """
    import sqlalchemy as sa

    try:
        return sa.create_engine(url)
    except (sa.exc.ArgumentError, ImportError) as error:
        try:
            shown = f"url={shown_url(sa.make_url(url))!r}"
        except sa.exc.ArgumentError:
            shown = "the url"  # Not shown, as any part of it may be a password.
        raise PlanError(
            f"to_sql: {shown} opens no database: {first_line(error)}; give one such as 'postgresql+psycopg://user@host/name' or "
            "'sqlite:///orders.db'"
        ) from None


def shown_url(url: sa.URL) -> str:
    """Return a url without the password, wherever it stands."""
    hidden = {name: "***" for name in url.query if name.lower() not in SHOWN_OPTIONS}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def database_of(engine: sa.Engine) -> sa.Engine | str:
    """Return what is equal for engines of one database: its url with the passwords, which is not shown. One in memory is its own."""
    path = engine.url.database or ""
    if engine.dialect.name == "sqlite":
        if not path or path == ":memory:" or "mode=memory" in engine.url.render_as_string():
            return engine
        return path if path.startswith("file:") else os.path.realpath(path)
    return engine.url.render_as_string(hide_password=False)


def require_names(place: str, table: str, columns: Iterable[str], dialect: str) -> None:
    """Check that a database distinguishes the columns of a table, which most do not if only their case differs.

    Raises:
        SinkError: it cannot; names the column.
    """
    if not isinstance(table, str) or not table or len(table) > WRITTEN:
        raise SinkError(f"{place}: a name of a table has 1 to {WRITTEN} characters")
    names: dict[str, str] = {}
    for name in columns:
        if not name:
            raise SinkError(
                f"{place}: a column has an empty name; rename it in the view, as with .rename({{'': 'name'}})"
            )
        twin = names.setdefault(name.casefold(), name)
        if twin != name and dialect != "postgresql":
            raise SinkError(
                f"{place}: the columns {twin!r} and {name!r} are one to databases that ignore case; rename one in the view"
            )
