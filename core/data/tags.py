"""Tags, versions and names of fields under which things of this library are kept, whatever the code calls them.

Digests name the classes and the functions of which plans and circuits are made, and digests tell a checkpoint which
states are whose. A tag is written beside the thing and never changes; where the thing is kept in another form, its
version does. So classes, fields and files can be renamed and moved.
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
    """A class or a function of this library that was to be kept and has no tag."""


_tags: dict[int, tuple[object, Tag]] = {}
_strictness = {"refuses": False}


def tagged(text: str, *, version: int = 1) -> Callable[[Thing], Thing]:
    """Give a class or a function its tag, ``"place:name"``: where it was, and its name, when it was first kept.

    It stays as it is when the thing moves. Objects of a class, and nodes of a circuit, are kept by the name; the class
    itself and a function, which users' functions may refer to, also by the place. ``@tagged`` stands above
    ``@dataclass``, as the finished class has to be tagged.
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


def tag_of(thing: object) -> Tag | None:
    """Return the tag of a class or a function; None for one of users or of other libraries.

    A thing of this library without a tag goes by its name in the code, so that a plan can be compiled
    whatever users' functions refer to; in tests it is refused.

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
    """Return the metadata of a field that kept objects do not have: it counts only where it is not its default.

    ``field(default=None, metadata=added_later())``; with a name of its own ``{**kept_as("name"), **added_later()}``.
    """
    return {_ADDED_LATER: True}


def not_kept() -> Mapping[str, bool]:
    """Return the metadata of a field that objects are compared by and that does not change results: digests skip it."""
    return {_NOT_KEPT: True}


def kept_fields(value: Any) -> list[tuple[str, object]]:
    """Return the fields that an object is compared by, under their kept names, with their values."""
    return [
        (str(each.metadata.get(_KEPT_AS, each.name)), getattr(value, each.name, None))
        for each in fields(value)
        if each.compare and not _is_left_out(each, getattr(value, each.name, None))
    ]


def _is_left_out(field: Field[Any], held: object) -> bool:
    if field.metadata.get(_NOT_KEPT) or not field.metadata.get(_ADDED_LATER):
        return bool(field.metadata.get(_NOT_KEPT))
    return type(held) is type(field.default) and held == field.default
