"""Positions of sources: the place of a batch in the log from which it is read, as JSON with an order.

A whole number (an offset, the number of a batch), a text (a log sequence number), a list that is compared part by part (the
name of a file and a line in it), or a map of partitions to any of these, each of which advances by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol

from evercurrent.core.data.errors import InputError, first_line

Position = Any
"""A JSON value: a number, a text, a list, or a map of partitions to these."""

MOST_POSITION = 2**63 - 1
"""The greatest position: they are counted in 64 bits, as the rows of any log."""

Path = tuple[str, ...]
"""A partition, as the keys that lead to it; empty for a position that is not a map."""


class PositionOrder(Protocol):
    """The order of positions given as ``position_order=``: a function that returns keys to compare."""

    def __call__(self, position: Any, /) -> Any:
        """Return the key of a position, or of one partition's position in a map."""
        ...


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of a source, and their order."""

    source: str
    order: PositionOrder | None = None

    def kept(self, value: object) -> Position:
        """Return a position in the form in which it is kept: JSON, with partitions as texts.

        Raises:
            InputError: the value is not a position; names the source.
        """
        try:
            position = self._kept(value)
            for _, part in _parts(position):
                self._key(part)
        except Exception as error:  # The order is a user's.
            raise InputError(
                f"source {self.source!r}: position={value!r} is not a position: {first_line(error)}; give a whole number from 0 (of 63 "
                "bits), a text, a list of these, or a map of partitions to them, which grow from batch to batch"
            ) from error
        return position

    def is_taken(self, position: Position, last: Position | None) -> bool:
        """Return whether a position is at or before the one up to which the source was taken.

        Raises:
            InputError: it is before in one partition and after in another, or the two cannot be compared.
        """
        if last is None:
            return False
        before, behind = dict(_parts(last)), dict(_parts(position))
        if (() in before) != (() in behind):
            raise self._refused(position, last, "has another form than the last one")
        moves = {
            path: self._moves(part, before[path], position, last)
            for path, part in behind.items()
            if path in before
        }
        ahead = [path for path in behind if moves.get(path, 1) > 0]
        back = [path for path, move in moves.items() if move < 0]
        if ahead and back:
            where = f"advances in {_named(ahead[0])} and goes back in {_named(back[0])}, which was taken up to {before[back[0]]!r}"
            raise self._refused(position, last, where)
        return not ahead

    def _moves(self, part: Any, before: Any, position: Position, last: Position) -> int:
        try:
            key, other = self._key(part), self._key(before)
            if self.order is None:
                _require_comparable(key, other)
            return int(key > other) - int(key < other)
        except Exception as error:  # The order is a user's.
            raise self._refused(
                position, last, f"cannot be compared with the last one ({first_line(error)})"
            ) from error

    def _key(self, part: Any) -> Any:
        return _plain(part) if self.order is None else self.order(part)

    def _kept(self, position: Any) -> Position:
        match position:
            case Mapping():
                if not position:
                    raise ValueError("a map without partitions")
                return {name: self._kept(part) for name, part in _partitions(position)}
            case list() | tuple() if position:
                return [self._kept(part) for part in position]
            case _ if self.order is not None and _read_again(position) == position:
                return position
        return _plain(position)

    def _refused(self, position: Position, last: Position, why: str) -> InputError:
        return InputError(
            f"source {self.source!r}: position={position!r} {why}; the source was taken up to {last!r}, and nothing has changed. Push "
            "batches in order, and declare position_order= where positions are compared by something else, as in "
            "engine.source(..., position_order=lambda lsn: [int(part, 16) for part in lsn.split('/')])"
        )


def joined(last: Mapping[str, Position], reached: Mapping[str, Position]) -> dict[str, Position]:
    """Return the positions of sources after an epoch; partitions without new rows keep theirs."""
    return {**last, **{name: _join(last.get(name), position) for name, position in reached.items()}}


def copied(positions: Mapping[str, Position]) -> dict[str, Position]:
    """Return a deep copy of the positions by the names of their sources."""
    return {name: deepcopy(positions[name]) for name in sorted(positions)}


def _join(last: Position | None, reached: Position) -> Position:
    if not isinstance(last, Mapping) or not isinstance(reached, Mapping):
        return reached
    return {**last, **{key: _join(last.get(key), part) for key, part in reached.items()}}


def _parts(position: Position, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each partition with its position."""
    if not isinstance(position, Mapping):
        yield path, position
        return
    for key, part in position.items():
        yield from _parts(part, (*path, key))


def _partitions(positions: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the partitions of a map as texts, with their positions.

    Raises:
        ValueError: a partition is neither a number nor a text, or two have the same text.
    """
    keys: dict[str, object] = {}
    for key, part in positions.items():
        if isinstance(key, bool) or not isinstance(key, str | Integral):
            raise ValueError(f"a partition {key!r}, which is neither a number nor a text")
        name = _written(str(key))
        if name in keys:
            raise ValueError(f"the partitions {keys[name]!r} and {key!r}, which are kept as one text")
        keys[name] = key
        yield name, part


def _read_again(position: Any) -> Any:
    """Return a position as it comes back from a checkpoint.

    Raises:
        ValueError: it cannot be kept there.
    """
    return json.loads(_written(json.dumps(position, allow_nan=False, ensure_ascii=False)))


def _written(text: str) -> str:
    """Return a text, checked to be valid UTF-8.

    Raises:
        ValueError: it has halves of characters, for which UTF-8 has no bytes.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{text!r} holds half of a character, which UTF-8 cannot write") from error
    return text


def _plain(part: Any) -> Any:
    """Return the key of a position in the default order.

    Raises:
        ValueError: it is not a number from 0, a text, or a list of these.
    """
    if isinstance(part, list) and part:
        return [_plain(each) for each in part]
    if isinstance(part, str) and part:
        return _written(part)
    if isinstance(part, bool) or not isinstance(part, Integral) or not 0 <= int(part) <= MOST_POSITION:
        raise ValueError(f"{part!r} is neither a whole number from 0 nor a text")
    return int(part)


def _require_comparable(one: Any, other: Any) -> None:
    """Check that two positions have an unambiguous order.

    Raises:
        ValueError: texts of different lengths, since as texts "9" sorts after "10".
    """
    if isinstance(one, list) and isinstance(other, list):
        for part, before in zip(one, other, strict=False):
            _require_comparable(part, before)
            if part != before:
                return
    if type(one) is not type(other):
        raise ValueError(f"{one!r} and {other!r} are of two types")
    if isinstance(one, str) and len(one) != len(other):
        raise ValueError(f"{one!r} and {other!r} are texts of different lengths, and '9' sorts after '10'")


def _named(path: Path) -> str:
    return "/".join(path)
