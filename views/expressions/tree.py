"""The tree of an expression is frozen, comparable, and the same with every version of polars.

``polars_tree`` reads it from a ``pl.Expr`` and writes it back; rules, digests and orders use only the tree. Functions
have the names that users of polars write: ``"str.contains"``, ``"list.get"``, ``"add"``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, ClassVar

import polars as pl

Option = Any
"""An option of a function: a plain value, a type of polars, or a tuple, ``Record``, ``Values`` or node of such."""


class Record(tuple[tuple[str, Option], ...]):
    """Options within an option, by their names in alphabetical order."""

    __slots__ = ()

    def __getitem__(self, name: Any) -> Any:
        """Return an option by its name."""
        return dict(self)[name]


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one type in their order, with a name: a Series, as the Arrow stream that polars makes of it."""

    stream: bytes = field(repr=False)


class Node:
    """One node of an expression: its kind by ``name``, and its input expressions."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Return the kind of the expression; of a call the function's name."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Return the input expressions, without those evaluated within lists, which see one row."""
        raise NotImplementedError

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        """Return the same node over other inputs."""
        assert not inputs, self
        return self


class Leaf(Node):
    """A node without inputs."""

    __slots__ = ()

    inputs = ()


@dataclass(frozen=True, slots=True)
class Column(Leaf):
    """A column of the rows."""

    name: ClassVar[str] = "column"

    column: str


@dataclass(frozen=True, slots=True)
class Element(Leaf):
    """The elements of a list, in an expression evaluated over them."""

    name: ClassVar[str] = "element"


@dataclass(frozen=True, slots=True)
class Field(Leaf):
    """A field of a struct, or several, in an expression evaluated over them."""

    name: ClassVar[str] = "field"

    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal(Leaf):
    """A constant: its stored value and its type, which may depend on the other operand.

    ``dtype`` is ``"int"``, ``"float"``, ``"str"`` or ``"list"`` if the other operand determines the type, and ``"series"``
    for values with rows of their own. 0.0 and -0.0 are two constants, and all NaN are one.
    """

    name: ClassVar[str] = "literal"

    dtype: pl.DataType | str
    value: Option = field(compare=False)
    _identity: Option = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_identity", _bits(self.value))


def _bits(value: Option) -> Option:
    """Return the value by which constants are compared: floats by their bits, and values of different types as different."""
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, tuple):
        return tuple(map(_bits, value))
    return (type(value).__name__, value) if isinstance(value, bool) else value


@dataclass(frozen=True, slots=True)
class Selector(Leaf):
    """A selection of columns by their names, positions, types or a pattern.

    ``required`` are the names that have to exist. ``is_literal``: the columns are given by name or position, not by a rule.
    """

    name: ClassVar[str] = "selector"

    description: Option
    required: tuple[str, ...] = ()
    is_literal: bool = False


@dataclass(frozen=True, slots=True)
class OfOne(Node):
    """An expression with one input."""

    input: Node
    inputs: tuple[Node, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", (self.input,))

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        (single,) = inputs
        return replace(self, input=single)


@dataclass(frozen=True, slots=True)
class Alias(OfOne):
    """The values of an expression under another name."""

    name: ClassVar[str] = "alias"

    alias: str


@dataclass(frozen=True, slots=True)
class Rename(OfOne):
    """The values of an expression under a name derived from its own: ``"keep"``, ``"prefix"``, ``"to_lowercase"`` ..."""

    name: ClassVar[str] = "rename"

    how: str
    argument: Option = None


@dataclass(frozen=True, slots=True)
class Cast(OfOne):
    """Values of another type; ``how`` is ``"strict"``, ``"non_strict"`` or ``"overflowing"``."""

    name: ClassVar[str] = "cast"

    dtype: Option
    how: str


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of expressions, operators included, with its options."""

    function: str
    inputs: tuple[Node, ...]
    options: tuple[tuple[str, Option], ...] = ()

    name = property(attrgetter("function"))

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, inputs=tuple(inputs))

    def option(self, name: str) -> Option:
        """Return one of the options."""
        return dict(self.options)[name]

    def with_option(self, name: str, value: Option) -> Call:
        """Return the same call with one option changed."""
        return replace(
            self, options=tuple((each, value if each == name else old) for each, old in self.options)
        )


@dataclass(frozen=True, slots=True)
class Aggregate(Call):
    """A function that makes one value of all rows of a group."""


@dataclass(frozen=True, slots=True)
class Over(Node):
    """An expression computed over the rows that agree in others, in an order or in none."""

    name: ClassVar[str] = "over"

    input: Node
    partition_by: tuple[Node, ...]
    order_by: Node | None
    order: Option
    mapping: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, *self.partition_by, *([] if self.order_by is None else [self.order_by]))

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        ordered = self.order_by is not None
        keys = tuple(inputs[1:-1] if ordered else inputs[1:])
        return replace(
            self, input=inputs[0], partition_by=keys, order_by=inputs[-1] if ordered else self.order_by
        )


@dataclass(frozen=True, slots=True)
class Nested(Node):
    """Expressions of the elements of each list, or of the fields of each struct: ``"list.eval"``, ``"struct.with_fields"``."""

    function: str
    input: Node
    evaluations: tuple[Node, ...]
    options: tuple[tuple[str, Option], ...] = ()

    name = property(attrgetter("function"))

    @property
    def sees_row(self) -> bool:
        """Return whether the evaluated expressions may also name columns of the row, as those of structs may."""
        return self.function.startswith("struct.")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, *self.evaluations) if self.sees_row else (self.input,)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        if self.sees_row:
            return replace(self, input=inputs[0], evaluations=tuple(inputs[1:]))
        (single,) = inputs
        return replace(self, input=single)


Renaming = (Alias, Rename)
"""Nodes that rename their input and keep its values."""


def without_renaming(node: Node) -> Node:
    """Return the node without its aliases."""
    while isinstance(node, Renaming):
        node = node.input
    return node


def copied(node: Node) -> str | None:
    """Return the column of which a tree is a copy, under its own name or another; None if it computes."""
    plain = without_renaming(node)
    return plain.column if isinstance(plain, Column) else None


def columns_of(node: Node) -> Iterator[str]:
    """Yield the columns that a tree names, those of strict selectors included."""
    if isinstance(node, Column):
        yield node.column
    elif isinstance(node, Selector):
        yield from node.required
    for each in node.inputs:
        yield from columns_of(each)


def reads_columns(node: Node) -> bool:
    """Return whether a tree names any column."""
    return next(columns_of(node), None) is not None
