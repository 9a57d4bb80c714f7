"""What things of this library are called in what is kept, whatever the code calls them: tags, versions, names of fields.

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
"""What is defined in this package has to have a tag, or it is not to be kept."""

_KEPT_AS, _ADDED_LATER, _NOT_KEPT = "evercurrent.kept_as", "evercurrent.added_later", "evercurrent.not_kept"


@dataclass(frozen=True, slots=True)
class Tag:
    """What stands for a class or a function: its name, and the place by which users' functions know it."""

    name: str
    home: str
    version: int = 1

    @property
    def kind(self) -> str:
        """What stands in front of what an object of the class holds: versions above 1 are part of it."""
        return self.name if self.version == 1 else f"{self.name}, version {self.version}"


class UntaggedError(TypeError):
    """A class or a function of this library is about to be named in what is kept, and has no tag."""


_tags: dict[int, tuple[object, Tag]] = {}
_strictness = {"refuses": False}


def tagged(text: str, *, version: int = 1) -> Callable[[Thing], Thing]:
    """Give a class or a function its tag, ``"place:name"``: where it was, and its name, when it was first kept.

    It stays as it is when the thing moves. Objects of a class, and nodes of a circuit, count by the name; the class itself
    and a function, which users' functions may refer to, also by the place. A class is tagged as it is in the end:
    ``@tagged`` stands above ``@dataclass``.
    """
    place, _, name = text.partition(":")
    assert name, f"{text!r} is no tag: give a place and a name"

    def remember(thing: Thing) -> Thing:
        _tags[id(thing)] = thing, Tag(name, f"{PACKAGE}.{place}", version)
        return thing

    return remember


def all_tagged() -> list[tuple[Any, Tag]]:
    """All that has a tag, of the modules that are imported."""
    return list(_tags.values())


def tag_of(thing: object) -> Tag | None:
    """The tag of a class or a function; None of one of users' or of other libraries.

    What is of this library and has no tag goes by the name that it has in the code, so that a plan can be compiled
    whatever users' functions refer to; in tests it is refused.

    Raises:
        UntaggedError: after ``refuse_untagged``.
    """
    found = _tags.get(id(thing))
    if found is not None:
        return found[1]
    module = str(getattr(thing, "__module__", None) or "")
    if module.partition(".")[0] != PACKAGE:
        return None
    name = str(getattr(thing, "__qualname__", thing))
    if _strictness["refuses"]:
        raise UntaggedError(
            f"{module}.{name} is to be named in what is kept, and has no tag: put @tagged(...) above it, and its tag into "
            "tests/data/tags.json"
        )
    return Tag(name, module)


def refuse_untagged() -> None:
    """From now on raise where a tag is missing, as all tests of this library want it."""
    _strictness["refuses"] = True


def kept_as(name: str) -> Mapping[str, str]:
    """For a field that is renamed: ``field(metadata=kept_as("old name"))``."""
    return {_KEPT_AS: name}


def added_later() -> Mapping[str, bool]:
    """For a field that kept objects do not have: it counts only where it is not its default.

    ``field(default=None, metadata=added_later())``; with a name of its own ``{**kept_as("name"), **added_later()}``.
    """
    return {_ADDED_LATER: True}


def not_kept() -> Mapping[str, bool]:
    """For a field by which objects are compared, and that does not say what is computed: digests pass it over."""
    return {_NOT_KEPT: True}


def kept_fields(value: Any) -> list[tuple[str, object]]:
    """The fields of an object by which it is compared, as they are called in what is kept, with what they hold."""
    return [
        (str(each.metadata.get(_KEPT_AS, each.name)), getattr(value, each.name, None))
        for each in fields(value)
        if each.compare and not _is_left_out(each, getattr(value, each.name, None))
    ]


def _is_left_out(field: Field[Any], held: object) -> bool:
    if field.metadata.get(_NOT_KEPT) or not field.metadata.get(_ADDED_LATER):
        return bool(field.metadata.get(_NOT_KEPT))
    return type(held) is type(field.default) and held == field.default
