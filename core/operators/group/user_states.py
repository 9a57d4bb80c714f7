"""States of users' aggregates are kept as bytes: of plain values, of a user's serializer, or pickles if they are allowed.

Loading a pickle runs any code in it, so whoever can write to the store controls the process that loads it. The first
byte is that of a JSON text, ``SERIALIZED``, or ``PICKLED``, with which every pickle begins.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from ...data.columns.plain_values import NotPlainError, decoded, encoded, type_name
from ...data.errors import CheckpointError, InputError, first_line

SERIALIZED, PICKLED = b"\x01", b"\x80"


@runtime_checkable
class Serializer(Protocol):
    """A serializer converts the states of a user's aggregate to bytes and back; the same bytes give equal states."""

    def dumps(self, state: Any, /) -> bytes:
        """Return the state as bytes; equal states have equal bytes, as everything in an aggregate is deterministic."""
        ...

    def loads(self, data: bytes, /) -> Any:
        """Return the state of bytes that ``dumps`` returned, in this version or an earlier one."""
        ...


class StateRefusedError(InputError):
    """A state that cannot be kept."""


class StateUnreadableError(CheckpointError):
    """A state that is kept in a form that cannot be read."""


@dataclass(frozen=True, slots=True)
class StateForm:
    """The form in which states are kept: by the user's serializer, or as plain values; else, if allowed, as pickles.

    Every allowed form is read, whichever is written: so an aggregate may be given a serializer later on.
    """

    serializer: Serializer | None = None
    allow_pickle: bool = False

    def dumps(self, state: object) -> bytes:
        """Return the state as bytes.

        Raises:
            StateRefusedError: it is not a plain value, there is no serializer, and pickles are not allowed; or the
                serializer does not return bytes.
        """
        if self.serializer is not None:
            serialized = self.serializer.dumps(state)
            if not isinstance(serialized, bytes):
                raise StateRefusedError(
                    f"the serializer returned {type_name(serialized)} for the state, not bytes; make its dumps return bytes"
                )
            return SERIALIZED + serialized
        try:
            return encoded(state)
        except NotPlainError as error:
            if self.allow_pickle:
                return pickle.dumps(state)
            raise StateRefusedError(
                f"its state is or holds {error.found}, which a checkpoint does not keep: only plain values (numbers, text, "
                "bytes, times, lists, tuples, dicts, sets, columns). Build the state of these, give "
                "aggregate(serializer=...) an object that turns it into bytes, or allow pickles with Checkpoint(path, "
                "allow_pickle=True) if nobody else can write there"
            ) from error

    def loads(self, data: bytes) -> Any:
        """Return the state of these bytes.

        Raises:
            StateUnreadableError: they are a pickle, and pickles are not allowed; they were written by a serializer, and
                there is none; or they are damaged.
        """
        first = data[:1]
        if first == PICKLED:
            if not self.allow_pickle:
                raise StateUnreadableError(PICKLES_REFUSED)
            return pickle.loads(data)
        if first != SERIALIZED:
            try:
                return decoded(data)
            except ValueError as error:
                raise StateUnreadableError(
                    f"its state is damaged ({first_line(error)}); restore the checkpoint from a copy"
                ) from error
        if self.serializer is None:
            raise StateUnreadableError(
                "its state was written by a serializer, but it is declared without one; declare it with the same one: "
                "aggregate(serializer=...)"
            )
        return self.serializer.loads(data[len(SERIALIZED) :])

    def converted(self, data: bytes) -> bytes:
        """Return the bytes of a state; a pickle is converted to the form that is written without ``allow_pickle``.

        A state that is not a plain value and has no serializer stays a pickle.
        """
        if data[:1] != PICKLED:
            return data
        try:
            return replace(self, allow_pickle=False).dumps(self.loads(data))
        except StateRefusedError:
            return data


PICKLES_REFUSED = (
    "its state is kept as a pickle, as in earlier versions, and loading a pickle runs any code in it. If you know who "
    "has written this checkpoint, open it once with Checkpoint(path, allow_pickle=True): states that are plain values, "
    "or have a serializer, are then kept as such"
)
