"""Arguments of a session that Spark would ignore, or not name, are refused before Java starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evercurrent.core.data.errors import PlanError
from evercurrent.spark_bridge import local_session, session
from evercurrent.spark_bridge.runtime import session as sessions


@pytest.fixture(autouse=True)
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not refused ends here."""

    def started() -> None:
        raise AssertionError("was accepted")

    monkeypatch.setattr(sessions, "require_spark", started)


@pytest.mark.parametrize("call", [local_session, session])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"core": 3}, "has no argument 'core'"),
        ({"sparkUiEnabled": True}, "has no argument 'sparkUiEnabled'"),
        ({"app_name": 5}, "app_name=5; give a text"),
        ({"app_name": None}, "app_name=None"),
        ({"app_name": " "}, "app_name=' '"),
        ({"settings": [1]}, r"settings=\[1\]; give a dictionary"),
        ({"settings": "spark.ui.enabled"}, "settings='spark.ui.enabled'; give a dictionary"),
        ({"settings": {1: 2}}, "1 is not a name"),
        ({"settings": {"spark.ui.enabled": None}}, "spark.ui.enabled=None; give a value"),
        ({"spark.ui.enabled": None}, "spark.ui.enabled=None; give a value"),
    ],
)
def test_of_any_session(call: Callable[..., Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        call(**arguments)


@pytest.mark.parametrize("cores", [0, -1, None, True, 1.5, "2"])
def test_cores_are_a_whole_number(cores: Any) -> None:
    with pytest.raises(PlanError, match=r"cores=.*; give a whole number from 1"):
        local_session(cores=cores)


def test_a_local_session_has_no_master() -> None:
    with pytest.raises(PlanError, match="local_session has no argument 'master'"):
        local_session(master="local[2]")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"master": 5}, "master=5; give a text"),
        ({"master": ""}, "master=''; give a text"),
        ({"master": "spark://host:7077", "archive": 5}, "archive=5; give a path"),
    ],
)
def test_of_a_cluster(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        session(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"app_name": "é"}, {"settings": {"own.name": 1, "plain": True}}, {"spark.ui.enabled": False}],
)
def test_others_are_accepted(arguments: dict[str, Any]) -> None:
    for call in (local_session, session):
        with pytest.raises(AssertionError, match="was accepted"):
            call(**arguments)
