"""States of users' aggregates as bytes: plain values, what a serializer of the user's makes, or pickles if those are allowed.

To load a pickle runs whatever it says, so who can write where it is kept owns who loads it. What bytes are is said by
the first of them: one of JSON's texts, ``SERIALIZED``, or ``PICKLED``, with which every pickle begins.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from ..columns.plain_values import NotPlainError, decoded, encoded, type_name
from ..data.errors import CheckpointError, InputError, first_line

SERIALIZED, PICKLED = b"\x01", b"\x80"


@runtime_checkable
class Serializer(Protocol):
    """Makes bytes of the states of a user's aggregate, and states of the bytes: equal states of the same bytes."""

    def dumps(self, state: Any, /) -> bytes:
        """The state as bytes: the same for the same, as all that an aggregate does."""
        ...

    def loads(self, data: bytes, /) -> Any:
        """The state of bytes that ``dumps`` gave, of this version or of an earlier one."""
        ...


class StateRefusedError(InputError):
    """A state that cannot be kept."""


class StateUnreadableError(CheckpointError):
    """A state that is kept in another form than those that are read."""


@dataclass(frozen=True, slots=True)
class StateForm:
    """In which form states are kept: by the user's serializer, or as plain values; else, if allowed, as pickles.

    Every form is read that is not refused, whichever is written: so an aggregate may be given a serializer later on.
    """

    serializer: Serializer | None = None
    allow_pickle: bool = False

    def dumps(self, state: object) -> bytes:
        """The state as bytes.

        Raises:
            StateRefusedError: it is no plain value, there is no serializer, and pickles are not allowed; or the serializer
                gives no bytes.
        """
        if self.serializer is not None:
            made = self.serializer.dumps(state)
            if not isinstance(made, bytes):
                raise StateRefusedError(
                    f"the serializer made {type_name(made)} of the state, and not bytes; have its dumps return bytes"
                )
            return SERIALIZED + made
        try:
            return encoded(state)
        except NotPlainError as error:
            if self.allow_pickle:
                return pickle.dumps(state)
            raise StateRefusedError(
                f"its state is or holds {error.found}, which a checkpoint does not keep: only plain values (numbers, text, "
                "bytes, times, lists, tuples, dicts, sets, columns). Make the state of these, give "
                "aggregate(serializer=...) what makes bytes of it, or allow pickles with Checkpoint(path, "
                "allow_pickle=True) if nobody else can write there"
            ) from error

    def loads(self, data: bytes) -> Any:
        """The state of these bytes.

        Raises:
            StateUnreadableError: they are a pickle, and these are not allowed; there is no serializer, and one has made
                them; or they are nothing that any version has written.
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
                "its state was written by a serializer, and it is declared without one; declare it with that one: "
                "aggregate(serializer=...)"
            )
        return self.serializer.loads(data[len(SERIALIZED) :])

    def converted(self, data: bytes) -> bytes:
        """The bytes of a state as they are, but of a pickle as they would be written if pickles were not allowed.

        What is no plain value, and has no serializer, stays a pickle.
        """
        if data[:1] != PICKLED:
            return data
        try:
            return replace(self, allow_pickle=False).dumps(self.loads(data))
        except StateRefusedError:
            return data


PICKLES_REFUSED = (
    "its state is kept as a pickle, as earlier versions did, and to load a pickle runs whatever it says. If you know who "
    "has written this checkpoint, open it once with Checkpoint(path, allow_pickle=True): what are plain values, or have "
    "a serializer, is then kept as such"
)
