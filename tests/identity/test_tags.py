"""Tags of what is kept: each thing has one, none is what another has, and digests made of them are those of the table.

``tests/data/tags.json`` was written when identities still were names in the code. A line of it never changes; for what is
new, running this file adds one.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import pkgutil
from abc import ABC
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import polars as pl
import pytest

import evercurrent as ec
import evercurrent.core
import evercurrent.views
from evercurrent.core.data import tags
from evercurrent.core.data.tags import (
    Tag,
    UntaggedError,
    added_later,
    all_tagged,
    kept_as,
    kept_fields,
    not_kept,
    tagged,
)
from evercurrent.core.eventtime.triggers.kinds import Trigger
from evercurrent.core.eventtime.watermarks.kinds import Watermark
from evercurrent.core.eventtime.windows.kinds import Window
from evercurrent.views.expressions.dtype_text import NAMES, dtype_text
from evercurrent.views.plan.digests import digest_of, kind_of
from evercurrent.views.plan.nodes import Operation

TABLE = Path(__file__).resolve().parents[1] / "data" / "tags.json"
PACKAGE = "evercurrent."


@cache
def load_all() -> None:
    """Import each module that gives a tag: many are imported when they are first needed."""
    for layer in (evercurrent.core, evercurrent.views):
        for module in pkgutil.walk_packages(layer.__path__, f"{layer.__name__}."):
            spec = importlib.util.find_spec(module.name)
            if spec is not None and spec.origin and "@tagged(" in Path(spec.origin).read_text("utf-8"):
                importlib.import_module(module.name)


def ours() -> list[tuple[Any, Tag]]:
    """What has a tag, without what tests have given one."""
    load_all()
    return [(thing, tag) for thing, tag in all_tagged() if thing.__module__.startswith(PACKAGE)]


def line_of(thing: Any, tag: Tag) -> dict[str, object]:
    """The line of the table for a thing: digests of an object of it, each field holding its own name, of a node, of itself."""
    line: dict[str, object] = {"version": tag.version}
    if is_dataclass(thing) and not inspect.isabstract(thing):
        sample = sample_of(thing)
        line |= {"fields": [name for name, _ in kept_fields(sample)], "object": digest_of(sample)}
    if isinstance(thing, type) and hasattr(thing, "step"):
        line["node"] = digest_of("node", "purpose", kind_of(thing), [])
    return line | {"itself": digest_of(thing)}


def sample_of(kind: Any) -> object:
    """An object whose fields hold the names by which they are kept; fields that came later their defaults."""
    sample = object.__new__(kind)
    for each in fields(kind):
        kept = str(each.metadata.get("evercurrent.kept_as", each.name))
        later = "evercurrent.added_later" in each.metadata
        object.__setattr__(sample, each.name, each.default if later else kept)
    return sample


def key(tag: Tag) -> str:
    return f"{tag.home.removeprefix(PACKAGE)}:{tag.name}"


def test_digests_made_of_tags_are_those_of_the_table() -> None:
    table, found = json.loads(TABLE.read_text()), {key(tag): line_of(thing, tag) for thing, tag in ours()}
    assert sorted(table.keys() - found.keys()) == [], (
        "nothing has these tags any more: give them back to what took the place of what had them"
    )
    assert sorted(found.keys() - table.keys()) == [], (
        "these tags are new: python tests/identity/test_tags.py adds them to the table"
    )
    for name, line in found.items():
        assert line == table[name], (
            f"{name} was kept otherwise: a renamed field takes kept_as(...), a new one added_later()"
        )


def test_no_two_things_have_one_tag() -> None:
    names = [key(tag) for _, tag in ours()]
    assert len(set(names)) == len(names)


def operators() -> Iterator[type]:
    """All operators of the core: what has a step, but for the protocol, what wraps others in tests, and abstract bases."""
    for found in pkgutil.walk_packages(evercurrent.core.__path__, "evercurrent.core."):
        for _, kind in inspect.getmembers(importlib.import_module(found.name), inspect.isclass):
            if (
                kind.__module__ == found.name
                and hasattr(kind, "step")
                and kind.__name__ not in ("Operator", "Checked")
                and ABC not in kind.__bases__
            ):
                yield kind


def subclasses(kind: type) -> Iterator[type]:
    """All classes under this one; not those that a dataclass with slots has taken the place of."""
    for each in kind.__subclasses__():
        yield from subclasses(each)
        if getattr(importlib.import_module(each.__module__), each.__name__, None) is each:
            yield each


def digested() -> set[Any]:
    """All classes and functions of ours that may be named in what is kept."""
    found: set[Any] = {
        *get_args(Operation),
        *get_args(Window),
        *operators(),
        *subclasses(Trigger),
        *subclasses(Watermark),
    }
    found |= {
        thing
        for name in ec.__all__
        if inspect.isroutine(thing := getattr(ec, name)) or inspect.isclass(thing)
    }
    waiting = list(found)
    while waiting:
        kind = waiting.pop()
        if is_dataclass(kind):
            new = {part for name in compared(kind) for part in classes_in(get_type_hints(kind)[name])} - found
            found |= new
            waiting += new
    return {thing for thing in found if thing.__module__.startswith(PACKAGE)}


def compared(kind: Any) -> list[str]:
    return [each.name for each in fields(kind) if each.compare]


def classes_in(hint: Any) -> Iterator[type]:
    """The classes of ours that a type is made of; not those that have no objects of their own."""
    if isinstance(hint, type) and hint.__module__.startswith(PACKAGE) and ABC not in hint.__bases__:
        yield hint
    for part in get_args(hint):
        yield from classes_in(part)


def test_all_that_may_be_named_in_what_is_kept_has_a_tag() -> None:
    load_all()
    known = {id(thing) for thing, _ in all_tagged()}
    without = sorted(
        f"{thing.__module__}.{thing.__qualname__}" for thing in digested() if id(thing) not in known
    )
    assert without == []


def test_what_has_no_tag_is_refused_in_tests_and_goes_by_its_name_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dataclass(frozen=True)
    class Forgotten:
        n: int = 1

    Forgotten.__qualname__ = "Forgotten"
    before = digest_of(Forgotten())
    Forgotten.__module__ = "evercurrent.core.forgotten"
    for value in (Forgotten(), Forgotten, [Forgotten(2)], lambda: Forgotten):
        with pytest.raises(UntaggedError, match=r"evercurrent\.core\.forgotten\.Forgotten"):
            digest_of(value)
    monkeypatch.setitem(tags._strictness, "refuses", False)
    assert digest_of(Forgotten()) == before


def test_a_class_is_renamed_and_moved_and_its_fields_are() -> None:
    @tagged("core.shop:Rate")
    @dataclass(frozen=True, slots=True)
    class Rate:
        value: float
        unit: str = "eur"

    @tagged("core.shop:Rate")
    @dataclass(frozen=True, slots=True)
    class Price:
        amount: float = field(metadata=kept_as("value"))
        currency: str = field(default="eur", metadata=kept_as("unit"))
        tax: float | None = field(default=None, metadata=added_later())
        note: str = field(default="", compare=False)
        shown: str = field(default="", metadata=not_kept())

    @tagged("core.shop:Rate", version=2)
    @dataclass(frozen=True, slots=True)
    class Other:
        value: float
        unit: str = "eur"

    assert digest_of(Rate(2.0)) == digest_of(Price(2.0, note="this year", shown="2"))
    for kind, name in ((Rate, "Rate"), (Price, "Price")):
        kind.__module__, kind.__qualname__ = f"evercurrent.core.{name.lower()}", name
    try:
        assert digest_of(Rate) == digest_of(Price)
    finally:
        for kind in (Rate, Price):  # Or else other tests count them among ours.
            kind.__module__ = __name__
    assert digest_of(Price(2.0)) != digest_of(Price(2.0, tax=0.1))
    assert digest_of(Rate(2.0)) != digest_of(Other(2.0))


def test_methods_go_by_the_tags_of_their_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest_of(ec.Engine.push)
    monkeypatch.setattr(ec.Engine.push, "__module__", "evercurrent.elsewhere")
    monkeypatch.setattr(ec.Engine.push, "__qualname__", "Motor.push")
    monkeypatch.setattr("evercurrent.views.engine.engine.Motor", ec.Engine, raising=False)
    monkeypatch.setattr(ec.Engine.push, "__module__", "evercurrent.views.engine.engine")
    assert digest_of(ec.Engine.push) == before


CATEGORIES = [pl.Categories("x"), pl.Categories("x", "shop", pl.UInt8)]
DTYPES = [
    *(kind() for name, kind in ((name, kind) for kind, name in NAMES.items()) if name not in
      ("Array", "Enum", "List", "Map", "Struct")),
    *NAMES, pl.Array(pl.Int64, 2), pl.Array(pl.List(pl.Int8), (2, 3)), pl.Datetime("ms", "Europe/Berlin"), pl.Duration("ns"),
    pl.Decimal(10, 2), pl.Decimal(None, 2), pl.Enum(["a", "b'"]), pl.Enum([]), pl.Enum([str(n) for n in range(99)]),
    *map(pl.Categorical, CATEGORIES), pl.Struct({"a": pl.Int8, "b c": pl.List(pl.String)}), pl.Struct({}),
    pl.List(pl.Struct({"x": pl.Enum(["k"]), "y": pl.Array(pl.Datetime("us"), 1)})), pl.List(pl.Int64),
]  # fmt: skip


@pytest.mark.skipif(not pl.__version__.startswith("2.1."), reason="other versions may show types otherwise")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_types_are_written_as_they_were_when_polars_wrote_them(dtype: Any) -> None:
    assert dtype_text(dtype) == repr(dtype)


if __name__ == "__main__":
    known = json.loads(TABLE.read_text())
    lines = {key(tag): line_of(thing, tag) for thing, tag in ours()} | known
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(lines[name])}" for name in sorted(lines))
    TABLE.write_text(f"{{\n{text}\n}}\n")
