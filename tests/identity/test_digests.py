"""Digests of values and of users' functions: what counts, and what does not."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from math import inf, nan
from typing import Any

import numpy as np
import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.plan.digests import digest_of, is_covered


def defined(source: str, name: str = "f") -> Any:
    """What a module of this text defines under this name."""
    namespace: dict[str, Any] = {"__name__": "shop"}
    exec(compile(source, f"/somewhere/{abs(hash(source))}.py", "exec"), namespace)
    return namespace[name]


class Colour(Enum):
    RED = 1
    GREEN = 2


class Text(str):
    __slots__ = ()


@dataclass(frozen=True)
class Rate:
    value: float


DIFFERENT = [
    None, True, False, 0, 1, -1, 2**70, 0.0, -0.0, 1.0, nan, inf, -inf, 1j, "", "0", "a", b"", b"a", (), (1,), ((1,),), (1, 2),
    (2, 1), [], [1], {}, {"a": 1}, {"a": 2}, {"b": 1}, set(), {1}, {1, 2}, ("ab", "c"), ("a", "bc"),
    np.int32(1), np.int64(1), np.float64(1), np.array([1, 2]), np.array([[1, 2]]), np.array([1.0, 2.0]),
    datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), timedelta(1), Decimal("1.0"), Decimal("1.00"),
    Colour.RED, Colour.GREEN, Text("a"), Text("b"), str.lower, bytes.upper, bytearray(b"a"), Rate(1.0), Rate(2.0), Rate, re.compile("a"), re.compile("a", re.I),
    pl.Int64(), pl.Int32(), pl.Datetime("us"), pl.Datetime("ms"), pl.Datetime("us", "UTC"), pl.Duration("us"),
    pl.Enum(["a", "b"]), pl.Enum(["b", "a"]), pl.Enum([str(n) for n in range(99)]), pl.Enum([str(n) for n in range(100)]),
    pl.List(pl.Int64()), pl.List(pl.Int32()), pl.Array(pl.Int64(), 2), pl.Array(pl.Int64(), 3), pl.Decimal(10, 2), pl.Decimal(10, 3),
    pl.Struct({"a": pl.Int64()}), pl.Struct({"b": pl.Int64()}), pl.Schema({"a": pl.Int64()}), pl.Schema({"a": pl.Int64(), "b": pl.Int64()}),
    pl.Schema({"b": pl.Int64(), "a": pl.Int64()}), pl.col("a"), pl.col("b"), pl.lit(nan), pl.lit(inf), pl.lit(-inf), pl.lit(0.0),
    pl.lit(-0.0), pl.lit(1), pl.lit(1.0), pl.lit("a"), pl.col("a").name.map(str.upper), pl.Series([1, 2]), pl.Series("a", [1, 2]),
    pl.Series([1, None]), pl.Series([1.0, nan]), pl.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": [2, 1]}),
    len, sum, str.upper, "a".join, "b".join, np.add, np.subtract, np.mean, partial(sum), partial(sum, start=1),
    ec.fixed("1m"), ec.fixed("2m"), ec.sessions("1m"), ec.each_row(), ec.after_count(1), ec.after_count(2), threading,
]  # fmt: skip
"""No two of these are the same."""


def test_what_differs_has_different_digests() -> None:
    found: dict[str, Any] = {}
    for value in DIFFERENT:
        digest = digest_of(value)
        assert re.fullmatch("[0-9a-f]{32}", digest)
        assert digest not in found, f"{value!r} and {found.get(digest)!r} have one digest"
        found[digest] = value
        assert digest_of(value) == digest


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"x", "y", "z"}, {"z", "y", "x"}),
        (pl.col("a") + 1, pl.col("a") + 1),
        (
            pl.DataFrame({"a": [1, 2]}),
            pl.concat([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})], rechunk=False),
        ),
        (Rate(0.5), Rate(0.5)),
        (pl.col("x").is_in([1, 2]), pl.col("x").is_in([1, 2])),
    ],
)
def test_what_is_equal_has_one_digest(one: Any, two: Any) -> None:
    assert digest_of(one) == digest_of(two)


SAME = {
    "comments, lines and another file": (
        "def f(x):\n    return x + 1\n",
        "import math\n\n# more\n\ndef f(x):\n    # why\n    return (\n        x + 1\n    )\n",
    ),
    "a docstring": (
        "def f(x):\n    return x + 1\n",
        "def f(x):\n    'More than it was.'\n    return x + 1\n",
    ),
    "names of variables": (
        "def f(x):\n    y = x + 1\n    return y\n",
        "def f(x):\n    more = x + 1\n    return more\n",
    ),
    "types": ("def f(x):\n    return x + 1\n", "def f(x: int) -> int:\n    return x + 1\n"),
    "functions that are not called": (
        "def g(x):\n    return 1\ndef f(x):\n    return x + 1\n",
        "def g(x):\n    return 2\ndef f(x):\n    return x + 1\n",
    ),
    "the order of definitions": (
        "def g(x):\n    return 1\ndef f(x):\n    return g(x)\n",
        "def f(x):\n    return g(x)\ndef g(x):\n    return 1\n",
    ),
    "the order of a set": ("f = lambda x: x in {'a', 'b', 'c'}\n", "f = lambda x: x in {'c', 'b', 'a'}\n"),
    "a module": (
        "import math\nf = lambda x: math.sqrt(x)\n",
        "import math\nimport re\nf = lambda x: math.sqrt(x)\n",
    ),
    "lines within": (
        "def f(x):\n    return [g for g in map(lambda y: y + 1, x)]\n",
        "def f(x):\n\n    return [\n        g\n        for g in map(lambda y: y + 1, x)\n    ]\n",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_function_is_the_same_beside_what_computes_nothing(name: str) -> None:
    one, two = SAME[name]
    assert digest_of(defined(one)) == digest_of(defined(two))


OTHER = {
    "a constant": ("f = lambda x: x + 1", "f = lambda x: x + 2"),
    "a float": ("f = lambda x: x + 1", "f = lambda x: x + 1.0"),
    "a zero": ("f = lambda x: x * 0.0", "f = lambda x: x * -0.0"),
    "an operator": ("f = lambda x: x + 1", "f = lambda x: x - 1"),
    "an attribute": ("f = lambda x: x.min()", "f = lambda x: x.max()"),
    "the name of an argument": ("f = lambda x: dict(a=x)", "f = lambda x: dict(b=x)"),
    "the order of arguments": ("f = lambda x: dict(a=x, b=x)", "f = lambda x: dict(b=x, a=x)"),
    "a default": ("def f(x, y=1):\n    return x + y", "def f(x, y=2):\n    return x + y"),
    "a keyword default": ("def f(x, *, y=1):\n    return x + y", "def f(x, *, y=2):\n    return x + y"),
    "a parameter": ("def f(x):\n    return x", "def f(x, *rest):\n    return x"),
    "what is called": ("def f(x):\n    return len(x)", "def f(x):\n    return sum(x)"),
    "a function within": (
        "def f(x):\n    return [*map(lambda y: y + 1, x)]",
        "def f(x):\n    return [*map(lambda y: y + 2, x)]",
    ),
    "what is closed over": (
        "def made(n):\n    return lambda x: x + n\nf = made(1)",
        "def made(n):\n    return lambda x: x + n\nf = made(2)",
    ),
    "a function that is closed over": (
        "def made(g):\n    return lambda x: g(x)\nf = made(lambda y: 1)",
        "def made(g):\n    return lambda x: g(x)\nf = made(lambda y: 2)",
    ),
    "a global constant": (
        "RATE = 1\ndef f(x):\n    return x * RATE",
        "RATE = 2\ndef f(x):\n    return x * RATE",
    ),
    "a table": (
        "RATES = {'a': 1}\ndef f(x):\n    return RATES[x]",
        "RATES = {'a': 2}\ndef f(x):\n    return RATES[x]",
    ),
    "a global within a function": (
        "RATE = 1\ndef f(x):\n    return [y * RATE for y in x]",
        "RATE = 2\ndef f(x):\n    return [y * RATE for y in x]",
    ),
    "a helper function": (
        "def g(x):\n    return 1\ndef f(x):\n    return g(x)",
        "def g(x):\n    return 2\ndef f(x):\n    return g(x)",
    ),
    "a helper of a helper": (
        "def h(x):\n    return 1\ndef g(x):\n    return h(x)\ndef f(x):\n    return g(x)",
        "def h(x):\n    return 2\ndef g(x):\n    return h(x)\ndef f(x):\n    return g(x)",
    ),
    "a recursive function": (
        "def f(x):\n    return x and f(x - 1) + 1",
        "def f(x):\n    return x and f(x - 1) + 2",
    ),
    "what is called by another name": (
        "from math import sin as g\nf = lambda x: g(x)",
        "from math import cos as g\nf = lambda x: g(x)",
    ),
    "the name": ("def f(x):\n    return x", "def g(x):\n    return x\nf = g"),
    "what is caught": (
        "def f(x):\n    try:\n        return 1 / x\n    except ValueError:\n        return 0",
        "def f(x):\n    try:\n        return 1 / x\n    except ZeroDivisionError:\n        return 0",
    ),
    "a partial": (
        "from functools import partial\ndef g(x, y):\n    return x\nf = partial(g, y=1)",
        "from functools import partial\ndef g(x, y):\n    return x\nf = partial(g, y=2)",
    ),
    "the function of a partial": (
        "from functools import partial\nf = partial(lambda x, y: x, y=1)",
        "from functools import partial\nf = partial(lambda x, y: y, y=1)",
    ),
    "a partial of a library's": (
        "from functools import partial\ndef add(a, b):\n    return a\nf = (list, partial(add), add)",
        "from functools import partial\ndef add(a, b):\n    return b\nf = (list, partial(add), add)",
    ),
    "a function that remembers": (
        "from functools import lru_cache\n@lru_cache\ndef g(x):\n    return 1\ndef f(x):\n    return g(x)",
        "from functools import lru_cache\n@lru_cache\ndef g(x):\n    return 2\ndef f(x):\n    return g(x)",
    ),
    "a decorated function": (
        "from functools import wraps\ndef d(g):\n    @wraps(g)\n    def h(*a):\n        return g(*a)\n    return h\n@d\ndef f(x):\n    return 1",
        "from functools import wraps\ndef d(g):\n    @wraps(g)\n    def h(*a):\n        return g(*a)\n    return h\n@d\ndef f(x):\n    return 2",
    ),
    "a callable object": (
        "class G:\n    def __init__(self, n):\n        self.n = n\n    def __call__(self, x):\n        return x\nf = G(1)",
        "class G:\n    def __init__(self, n):\n        self.n = n\n    def __call__(self, x):\n        return x\nf = G(2)",
    ),
    "the class of a callable object": (
        "class G:\n    def __call__(self, x):\n        return x + 1\nf = G()",
        "class G:\n    def __call__(self, x):\n        return x + 2\nf = G()",
    ),
    "the base of its class": (
        "class B:\n    def g(self):\n        return 1\nclass G(B):\n    def __call__(self, x):\n        return self.g()\nf = G()",
        "class B:\n    def g(self):\n        return 2\nclass G(B):\n    def __call__(self, x):\n        return self.g()\nf = G()",
    ),
    "a slot": (
        "class G:\n    __slots__ = ('n',)\n    def __call__(self, x):\n        return x\nf = G()\nf.n = 1",
        "class G:\n    __slots__ = ('n',)\n    def __call__(self, x):\n        return x\nf = G()\nf.n = 2",
    ),
    "a bound method": (
        "class G:\n    n = 1\n    def g(self, x):\n        return x\none = G()\none.m = 1\nf = one.g",
        "class G:\n    n = 1\n    def g(self, x):\n        return x\none = G()\none.m = 2\nf = one.g",
    ),
    "a frame": (
        "import polars as pl\nNAMES = pl.DataFrame({'a': [1]})\ndef f(x):\n    return x.join(NAMES, on='a')",
        "import polars as pl\nNAMES = pl.DataFrame({'a': [2]})\ndef f(x):\n    return x.join(NAMES, on='a')",
    ),
    "an expression": (
        "import polars as pl\nNEXT = pl.col('a') + 1\ndef f(x):\n    return x.select(NEXT)",
        "import polars as pl\nNEXT = pl.col('a') + 2\ndef f(x):\n    return x.select(NEXT)",
    ),
}


def test_a_call_with_named_arguments_is_covered() -> None:
    assert is_covered(lambda x: sorted(x, reverse=True))


@pytest.mark.parametrize("name", OTHER)
def test_a_function_is_another_one_where_something_else_is_computed(name: str) -> None:
    one, two = OTHER[name]
    assert digest_of(defined(one)) != digest_of(defined(two))
    assert digest_of(defined(one)) == digest_of(defined(one)), "defined again, it is the same"


@pytest.mark.parametrize(
    "source",
    [
        "import evercurrent as ec\nengine = ec.Engine()\nf = lambda x: engine and x",
        "import threading\nlock = threading.Lock()\ndef f(x):\n    with lock:\n        return x",
        "class Loop:\n    def __call__(self, x):\n        return x\nf = Loop()\nf.itself = f\nf.also = [f]",
        "def f(x):\n    return g(x)\ndef g(x):\n    return f(x)",
        "names = []\nnames.append(names)\nf = lambda x: names",
        "class Odd:\n    def __getattr__(self, name):\n        raise RuntimeError(name)\n    def __call__(self, x):\n        return x\nf = Odd()",
        "f = object()",
        "import evercurrent as ec\nrows = ec.Engine().source('a', {'x': int})\nf = lambda x: rows",
        "class Bad(dict):\n    def keys(self):\n        raise ValueError\n    def __iter__(self):\n        raise ValueError\nbad = Bad(a=1)\nf = lambda x: bad",
        "deep = ()\nfor _ in range(5000):\n    deep = (deep,)\nf = lambda x: deep",
        "f = (n for n in range(3))",
        "import re\nf = re.compile('a').match",
        "import io\nf = io.StringIO('a').read",
        "def made():\n    def f(x):\n        return later(x)\n    found = f\n    later = f\n    return found\nf = made()",
        "class A:\n    pass\nclass B(A):\n    pass\nA.other = B\nf = B",
    ],
)
def test_whatever_is_given_has_a_digest_and_the_same_one_when_it_is_made_again(source: str) -> None:
    assert digest_of(defined(source)) == digest_of(defined(source))


def test_a_function_of_a_library_counts_by_its_name() -> None:
    copied: Callable[..., Any] = partial(np.mean, axis=0)
    assert digest_of(copied) == digest_of(partial(np.mean, axis=0))
    assert digest_of(np.mean) != digest_of(np.median)


@pytest.mark.parametrize("module", [None, 3])
def test_a_class_may_have_any_module(module: Any) -> None:
    kind: Any = make_dataclass("Rate", [("value", int)])
    kind.__module__ = module
    assert digest_of(kind(1)) == digest_of(kind(1)) != digest_of(kind(2))
