"""What is asked of a query and recorded of its micro-batches, as files of the checkpoint: JSON, of which nothing is run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from evercurrent.core.columns.plain_values import NotPlainError, decoded, encoded
from evercurrent.core.data.errors import CorruptFileError, InputError
from evercurrent.views.partitioned.tasks import FireRequest

T = TypeVar("T")

FORMAT = 1
"""Version of what is written."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is recorded of a micro-batch: its processing time in microseconds, and which windows are to fire.

    ``asked`` are the files in which that is asked for.
    """

    at: int
    fires: tuple[FireRequest, ...]
    asked: tuple[str, ...]


def fire_as_bytes(fire: FireRequest) -> bytes:
    """A request to have windows fire, as bytes.

    Raises:
        InputError: its key or window is no plain value.
    """
    return _as_bytes({"fire": _as_json(fire)})


def fire_from(where: str, data: bytes) -> FireRequest:
    """The request that was written so. ``where`` names it in messages.

    Raises:
        CorruptFileError: it is none.
    """
    return _read(where, data, lambda said: _fire(said["fire"]))


def attempt_as_bytes(attempt: Attempt) -> bytes:
    """What is recorded of a micro-batch, as bytes."""
    fires = [_as_json(fire) for fire in attempt.fires]
    return _as_bytes({"at": attempt.at, "fires": fires, "asked": list(attempt.asked)})


def attempt_from(where: str, data: bytes) -> Attempt:
    """The record that was written so. ``where`` names it in messages.

    Raises:
        CorruptFileError: it is none.
    """

    def made(said: Mapping[str, Any]) -> Attempt:
        return Attempt(int(said["at"]), tuple(map(_fire, said["fires"])), tuple(map(str, said["asked"])))

    return _read(where, data, made)


def _as_json(fire: FireRequest) -> dict[str, str]:
    try:
        return {
            "view": fire.view,
            "key": encoded(fire.key).decode(),
            "window": encoded(fire.window).decode(),
        }
    except NotPlainError as error:
        raise InputError(
            f"view {fire.view!r}: key {fire.key!r} or window {fire.window!r} is or holds {error.found}; give the values "
            "that the columns have"
        ) from error


def _fire(said: Mapping[str, str]) -> FireRequest:
    return FireRequest(str(said["view"]), decoded(said["key"].encode()), decoded(said["window"].encode()))


def _as_bytes(said: Mapping[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, **said}).encode()


def _read(where: str, data: bytes, made: Callable[[Any], T]) -> T:
    try:
        said = json.loads(data)
        if said["format"] != FORMAT:
            raise ValueError(f"format {said['format']}")
        return made(said)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        found = "is a pickle, as earlier versions wrote, which is not loaded" if data[:1] == b"\x80" else ""
        raise CorruptFileError(
            f"{where} {found or f'is no record of this version ({type(error).__name__}: {error})'}"
        ) from error
