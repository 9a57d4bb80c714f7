"""The parts of a user's function for its digest, as far as they can be inspected: code, closure and the names it refers to.

What counts, and what does not:

- a function counts by its qualified name, its instructions, its defaults, the values that it closes over and the
  globals that it names: a changed constant or a changed helper function is a change. Lines, files, comments,
  docstrings and names of local variables do not count.
- what is defined in another package than the function, such as a function of polars, counts by its name alone, what is
  of this library by its tag; so do functions without code (those made in C). A plugin of polars counts by its library's name, its symbol and
  its arguments.
- bound methods, ``functools.partial``, ``functools.lru_cache`` and callable objects count by their parts:
  the function, the arguments, the class with its methods, the attributes.
- of objects of other packages only the class counts; attributes of modules (``settings.rate``) do not count.

Bytecode depends on the version of Python: with another version, functions have other digests.
"""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Iterator
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from evercurrent.core.data.tags import own_tag, tag_of

from .digest_scheme import THIRD, scheme

Numbered = dict[int, tuple[int, object]]
"""Functions, classes and objects that have occurred, by ``id``: their number, and the object itself, which keeps it alive."""

UNSEEN_OBJECT = "object of another package"
"""The mark of an object of which only the class counts."""

LIBRARIES = frozenset(
    {*sys.stdlib_module_names, "evercurrent", "numpy", "polars", "pyarrow", "pandas"} - {"__main__"}
)
"""Packages whose functions and classes count by their names."""

KINDS = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
UNSEEN = frozenset({"NOP", "CACHE", "RESUME", "EXTENDED_ARG"})
"""Instructions that compute nothing."""

MERGES_BY_LINE = (3, 13)
"""From this version of Python on, bytecode depends on which instructions stand in one line."""

MERGED = re.compile(r"((?:LOAD|STORE)_FAST(?:_BORROW)?)_((?:LOAD|STORE)_FAST(?:_BORROW)?)")
"""Names of instructions that are two in one."""


def parts_of(value: Any, numbered: Numbered) -> tuple[object, ...]:
    """Return the parts of a function, a class or an object; its number if it occurred before."""
    if id(value) in numbered:
        return "met", numbered[id(value)][0]
    numbered[id(value)] = (len(numbered), value)
    home = _home(numbered)
    match value:
        case FunctionType():
            return _function(value, home)
        case MethodType():
            return "method", value.__func__, value.__self__
        case partial():
            return "partial", value.func, value.args, value.keywords
        case BuiltinFunctionType():
            bound = None if isinstance(value.__self__, ModuleType) else value.__self__
            return "built in", value.__module__, value.__qualname__, bound
        case ModuleType():
            return "module", value.__name__
        case re.Pattern():
            return "pattern", value.pattern, value.flags
        case type():
            return _class(value, home)
        case _:
            return _object(value, home)


def are_one_function(one: Any, other: Any) -> bool:
    """Return whether two functions are the same one, perhaps defined twice: the same code over the same values and globals.

    >>> made = [lambda rows: rows.head(n=1) for _ in range(2)]
    >>> are_one_function(*made), are_one_function(made[0], lambda rows: rows.head(n=2))
    (True, False)
    """
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(are_one_function, one, other))
    if not (isinstance(one, FunctionType) and isinstance(other, FunctionType)):
        return type(one) is type(other) and isinstance(one, str | bytes | int | float) and one == other
    cells = [tuple(map(_content, function.__closure__ or ())) for function in (one, other)]
    defaults = [
        (*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items()))
        for function in (one, other)
    ]
    return (
        one.__globals__ is other.__globals__
        and one.__code__ == other.__code__
        and are_one_function(*cells)
        and are_one_function(*defaults)
    )


def _home(numbered: Numbered) -> str:
    """Return the package of the first function or object that is not a library's: definitions in that package count."""
    for _, value in numbered.values():
        defined = value if isinstance(value, FunctionType | type) else type(value)
        if (package := _package(defined)) not in LIBRARIES:
            return package
    return ""


def _package(defined: object) -> str:
    return str(getattr(defined, "__module__", None) or "").partition(".")[0]


def _is_named(defined: Any, home: str) -> bool:
    """Return whether a definition counts by its name: it is of another package, which has such a name."""
    package = _package(defined)
    return (package != home or package in LIBRARIES) and "<" not in defined.__qualname__


def _place_and_name(defined: Any) -> tuple[str, str]:
    """Return place and name of a library's function or class: in this library by its tag, a method by its own or that of its class."""
    own = own_tag(defined)
    if own is not None:
        return own.home, own.kind
    owner, _, method = defined.__qualname__.rpartition(".")
    holder = getattr(sys.modules.get(defined.__module__), owner, None) if owner else None
    tag = tag_of(defined if holder is None else holder)
    if tag is None:
        return defined.__module__, defined.__qualname__
    return tag.home, tag.kind if holder is None else f"{tag.kind}.{method}"


def _function(function: FunctionType, home: str) -> tuple[object, ...]:
    if _is_named(function, home):
        return "function", *_place_and_name(function)
    cells = function.__closure__ or ()
    return (
        "function",
        function.__qualname__,
        code_parts(function.__code__),
        function.__defaults__,
        function.__kwdefaults__,
        tuple(_content(cell) for cell in cells),
        tuple(_globals_of(function)),
    )


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"  # Not assigned yet: a function that is still being defined.


def _globals_of(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the global names that a function uses, with their values, in the order of the names."""
    for name in sorted(set(_global_names(function.__code__))):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _global_names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def code_parts(code: CodeType) -> tuple[object, ...]:
    """Return the parameters and the instructions of code, without their places in the file."""
    count = code.co_argcount + code.co_kwonlyargcount
    parameters = (code.co_argcount, code.co_posonlyargcount, code.co_varnames[:count], code.co_flags & KINDS)
    if sys.version_info >= MERGES_BY_LINE:
        return (*parameters, *_unmerged(code))
    instructions = tuple(
        (each.opname, _operand(each, code))
        for each in dis.get_instructions(code)
        if each.opname not in UNSEEN
    )
    return (*parameters, instructions, code.co_exceptiontable)


def _unmerged(code: CodeType) -> tuple[object, ...]:
    """Return the instructions as if none were merged, with jumps and the exception table by number of the instruction.

    Two instructions are merged where they stand in one line, which moves all that follow.
    """
    numbers: dict[int, int] = {}
    parts: list[tuple[dis.Instruction, str, object]] = []
    for each in dis.get_instructions(code):
        numbers[each.offset] = len(parts)
        if each.opname in UNSEEN:
            continue
        if pair := MERGED.fullmatch(each.opname):
            assert each.arg is not None, "a merged instruction has two variables"
            parts += [(each, pair[1], each.arg >> 4), (each, pair[2], each.arg & 15)]
        else:
            parts.append((each, each.opname, _operand(each, code)))
    numbers[len(code.co_code)] = len(parts)
    jumps = {*dis.hasjrel, *dis.hasjabs}
    instructions = tuple(
        (name, numbers[each.argval] if each.opcode in jumps else operand) for each, name, operand in parts
    )
    bytecode: Any = dis.Bytecode(code)
    caught = tuple(
        (numbers[entry.start], numbers[entry.end], numbers[entry.target], entry.depth, entry.lasti)
        for entry in bytecode.exception_entries
    )
    return instructions, caught


def _operand(instruction: dis.Instruction, code: CodeType) -> object:
    if instruction.opname == "KW_NAMES" and scheme() > THIRD:
        assert instruction.arg is not None, "names of keyword arguments are a constant"
        return code.co_consts[instruction.arg]  # ``dis`` does not look them up.
    if instruction.opcode in dis.hasconst:
        value = instruction.argval
        return code_parts(value) if isinstance(value, CodeType) else value
    return instruction.argval if instruction.opcode in dis.hasname else instruction.arg


def _class(defined: type, home: str) -> tuple[object, ...]:
    if _is_named(defined, home):
        return "class", *_place_and_name(defined)
    own = {
        name: getattr(member, "__func__", member)
        for name, member in sorted(vars(defined).items())
        if isinstance(member, FunctionType | classmethod | staticmethod)
    }
    own |= {name: member.fget for name, member in vars(defined).items() if isinstance(member, property)}
    return "class", defined.__qualname__, tuple(defined.__bases__), own


def _object(value: Any, home: str) -> tuple[object, ...]:
    kind = type(value)
    if _package(kind) != home or _package(kind) in LIBRARIES:
        name = _attribute(value, "__qualname__") or _attribute(value, "__name__")
        named = name if isinstance(name, str) else None
        # A function wrapped by a decorator in C, as `functools.lru_cache`, or compiled at run time, as by numba.
        wrapped = _attribute(value, "__wrapped__") or _attribute(value, "py_func")
        function = wrapped if isinstance(wrapped, FunctionType) else None
        return ("named" if named else UNSEEN_OBJECT), *_place_and_name(kind), named, function
    slots = [name for each in kind.__mro__ for name in _slots(each)]
    held = {name: _attribute(value, name) for name in slots}
    return "object", kind, {**held, **vars(value)} if hasattr(value, "__dict__") else held


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute of an arbitrary object; None where it has none."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None  # A class may raise anything for an attribute that it does not have.


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
