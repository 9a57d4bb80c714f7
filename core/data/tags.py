"""Tags, versions and field names under which classes and functions of this library are persisted.

States in a checkpoint are identified by digests, which contain the classes and functions of plans and circuits. A tag is
written above a class or function and never changes; if its persisted form changes, its version does. So classes, fields
and files can be renamed and moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any, TypeVar

Thing = TypeVar("Thing", bound=Callable[..., Any])

PACKAGE = "evercurrent"
"""Things defined in this package need a tag to be kept."""

_KEPT_AS, _ADDED_LATER, _NOT_KEPT = "evercurrent.kept_as", "evercurrent.added_later", "evercurrent.not_kept"


@dataclass(frozen=True, slots=True)
class Tag:
    """The tag of a class or a function: its name, and the place by which users' functions refer to it."""

    name: str
    home: str
    version: int = 1

    @property
    def kind(self) -> str:
        """Return the text that precedes the fields of an object of the class: the name, and a version above 1."""
        return self.name if self.version == 1 else f"{self.name}, version {self.version}"


class UntaggedError(TypeError):
    """A class or a function of this library that has to be persisted and has no tag."""


_tags: dict[int, tuple[object, Tag]] = {}
_strictness = {"refuses": False}


def tagged(text: str, *, version: int = 1) -> Callable[[Thing], Thing]:
    """Give a class or a function its tag, ``"place:name"``: its place and its name when it was first persisted.

    The tag stays the same when the class or function moves. Objects of a class, and nodes of a circuit, are persisted by
    the name; the class itself or a function, to which users' functions may refer, also by the place. A method goes by the
    tag of its class, unless it has one, as it has moved to another class. ``@tagged`` is
    written above ``@dataclass``, since the finished class has to be tagged.
    """
    place, _, name = text.partition(":")
    assert name, f"{text!r} is not a tag: give a place and a name"

    def remember(thing: Thing) -> Thing:
        _tags[id(thing)] = thing, Tag(name, f"{PACKAGE}.{place}", version)
        return thing

    return remember


def all_tagged() -> list[tuple[Any, Tag]]:
    """Return every tagged class and function of the imported modules."""
    return list(_tags.values())


def own_tag(thing: object) -> Tag | None:
    """Return the tag that is written above a class, a function or a method; None if there is none."""
    entry = _tags.get(id(thing))
    return None if entry is None else entry[1]


def tag_of(thing: object) -> Tag | None:
    """Return the tag of a class or a function; None for one of users or of other libraries.

    Without a tag, a class or function of this library is identified by its name in the code, so that a plan can be compiled
    whatever users' functions refer to; in tests that is an error.

    Raises:
        UntaggedError: after ``refuse_untagged``.
    """
    entry = _tags.get(id(thing))
    if entry is not None:
        return entry[1]
    module = str(getattr(thing, "__module__", None) or "")
    if module.partition(".")[0] != PACKAGE:
        return None
    name = str(getattr(thing, "__qualname__", thing))
    if _strictness["refuses"]:
        raise UntaggedError(
            f"{module}.{name} is persisted by name and has no tag: put @tagged(...) above it, and its tag into "
            "tests/data/tags.json"
        )
    return Tag(name, module)


def refuse_untagged() -> None:
    """Raise from now on where a tag is missing, as all tests of this library do."""
    _strictness["refuses"] = True


def kept_as(name: str) -> Mapping[str, str]:
    """Return the metadata of a field that is renamed: ``field(metadata=kept_as("old name"))``."""
    return {_KEPT_AS: name}


def added_later() -> Mapping[str, bool]:
    """Return the metadata of a field that persisted objects may lack: it is part of the digest only if it is not the default.

    ``field(default=None, metadata=added_later())``; with a name of its own ``{**kept_as("name"), **added_later()}``.
    """
    return {_ADDED_LATER: True}


def not_kept() -> Mapping[str, bool]:
    """Return the metadata of a field that is compared but does not change results, which digests therefore skip."""
    return {_NOT_KEPT: True}


def kept_fields(value: Any) -> list[tuple[str, object]]:
    """Return the compared fields of an object, under their persisted names, with their values."""
    return [
        (str(each.metadata.get(_KEPT_AS, each.name)), getattr(value, each.name, None))
        for each in fields(value)
        if each.compare and not _is_left_out(each, getattr(value, each.name, None))
    ]


def _is_left_out(field: Field[Any], held: object) -> bool:
    if field.metadata.get(_NOT_KEPT) or not field.metadata.get(_ADDED_LATER):
        return bool(field.metadata.get(_NOT_KEPT))
    return type(held) is type(field.default) and held == field.default
