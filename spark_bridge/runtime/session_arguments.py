"""The arguments of a session are checked before Java starts: its errors would not name them, and it leaves out what is unknown to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evercurrent.core.data.errors import PlanError

LEAVE_OUT = "or leave it out"


def require_app_name(app_name: object) -> None:
    """Check the name of an application.

    Raises:
        PlanError: it is not a text, or is empty.
    """
    if not isinstance(app_name, str) or not app_name.strip():
        raise PlanError(f"app_name={app_name!r}; give a text that is not empty, {LEAVE_OUT}")


def require_cores(cores: object) -> None:
    """Check the number of cores.

    Raises:
        PlanError: it is not a whole number from 1.
    """
    if isinstance(cores, bool) or not isinstance(cores, int) or cores < 1:
        raise PlanError(f"cores={cores!r}; give a whole number from 1, {LEAVE_OUT}")


def require_cluster(master: object, archive: object) -> None:
    """Check the names of a cluster and of an archive; whether there are such ones is not known yet.

    Raises:
        PlanError: one is neither a text nor left out.
    """
    if master is not None and (not isinstance(master, str) or not master.strip()):
        raise PlanError(f"master={master!r}; give a text such as 'spark://host:7077', {LEAVE_OUT}")
    if archive is not None and not isinstance(archive, str | Path):
        raise PlanError(f"archive={archive!r}; give a path or a url, {LEAVE_OUT}")


def require_settings(call: str, settings: object, keywords: Mapping[str, object]) -> None:
    """Check Spark's settings by name, as they are given to a call in a dictionary and as keywords.

    Spark starts with any name, so an argument that is misspelled would have no effect.

    Raises:
        PlanError: they are not a dictionary of names, one is None, or a keyword is not the name of a setting.
    """
    if settings is not None and not isinstance(settings, Mapping):
        raise PlanError(
            f"settings={settings!r}; give a dictionary, as {{'spark.ui.enabled': False}}, {LEAVE_OUT}"
        )
    for name in keywords:
        if "." not in name:
            raise PlanError(
                f"{call} has no argument {name!r}, and Spark no such setting; its settings are given by their names, as "
                "**{'spark.ui.enabled': False}"
            )
    for name, value in {**(settings or {}), **keywords}.items():
        if not isinstance(name, str):
            raise PlanError(f"settings: {name!r} is not a name; give one such as 'spark.ui.enabled'")
        if value is None:
            raise PlanError(f"{name}=None; give a value, {LEAVE_OUT}")
