"""Names say what they hold: no identifier is built of words of speech, no local variable is called by how it came.

A pane is emitted, a trigger fires, a row is refused; nothing in the code speaks, hears, is asked or told. A variable that is
called ``found`` or ``made`` has to be followed back to be understood, one that is called ``matching_rows`` does not. Only
names that are bound are looked at: what libraries call theirs is their own. Fields of classes and names of methods may be
participles, as ``report.passed`` is read with the name of its object.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from source_modules import LAYERS, ROOT, tree_of

SPEECH = re.compile(
    "ask(s|ed|ing)?|hear(s|d|ing)?|(un)?sa(y|ys|id|ying)|sp(eak|eaks|oke|oken|eaking)|t(ell|ells|old|elling)"
)
"""Words of which no identifier is built."""

HOW_IT_CAME = re.compile("done|found|given|got|kept|known|made|meant|offered|passed|taken|wanted")
"""Names that no local variable and no parameter has: they say how it came and not what it is."""

EXCEPTIONS = {
    ("views/checkpoint/piece_files.py", "tell"): "Arrow calls it, as it does with a file.",
}
"""By file and name, why a name stays all the same."""

FOLDERS = (*LAYERS, "bench")

Bound = Iterator[tuple[int, str]]
"""Lines and names."""


@cache
def sources() -> dict[str, ast.Module]:
    """The syntax trees of the layers and of the benchmarks, by path."""
    paths = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if ".envs" not in path.parts
    ]
    return {path.relative_to(ROOT).as_posix(): tree_of(path.read_text("utf-8")) for path in paths}


def words_of(name: str) -> list[str]:
    """The words of a name, in small letters: of ``said_at``, ``SAID_AT`` and ``SaidAt`` they are ``said`` and ``at``."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def bound_by(node: ast.AST) -> Bound:
    """The names that a node binds by itself, apart from attributes."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.lineno, node.name
        case ast.arg():
            yield node.lineno, node.arg
        case ast.Name(ctx=ast.Store()):
            yield node.lineno, node.id
        case ast.alias(asname=str(name)):
            yield node.lineno, name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield node.lineno, name
        case ast.MatchMapping(rest=str(name)):
            yield node.lineno, name


def identifiers(tree: ast.AST) -> Bound:
    """All names that a module binds: of functions, classes, parameters, variables, fields and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        yield from bound_by(node)


def local_names(tree: ast.AST) -> Bound:
    """The parameters and variables of functions, and the variables of comprehensions and of blocks of modules.

    Neither names of functions and classes, nor fields of classes.
    """
    is_class = isinstance(tree, ast.ClassDef)
    for node in ast.iter_child_nodes(tree):
        declares = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        is_field = is_class and isinstance(node, ast.Assign | ast.AnnAssign)
        if is_field:
            yield from (each for value in [node.value] if value for each in local_names(value))
            continue
        if not declares:
            yield from bound_by(node)
        yield from local_names(node)


@cache
def speaking(tree: ast.AST) -> list[tuple[int, str]]:
    """The names of a module that are built of words of speech."""
    return [(line, name) for line, name in identifiers(tree) if any(map(SPEECH.fullmatch, words_of(name)))]


@cache
def vague(tree: ast.AST) -> list[tuple[int, str]]:
    """The local names of a module that say how something came."""
    return [(line, name) for line, name in local_names(tree) if HOW_IT_CAME.fullmatch(name)]


def shown(path: str, names: list[tuple[int, str]]) -> list[str]:
    return [f"{path}:{line}: {name}" for line, name in names if (path, name) not in EXCEPTIONS]


def test_all_folders_are_read():
    assert {path.partition("/")[0] for path in sources()} == set(FOLDERS)


def test_no_identifier_speaks():
    wrong = [line for path, tree in sources().items() for line in shown(path, speaking(tree))]
    assert wrong == [], "panes are emitted, triggers fire, windows are requested: choose such a word"


def test_no_local_name_says_only_how_it_came():
    wrong = [line for path, tree in sources().items() for line in shown(path, vague(tree))]
    assert wrong == [], "call it by what it holds, as matching_rows; or give the reason in EXCEPTIONS"


def test_exceptions_are_needed():
    bound = {(path, name) for path, tree in sources().items() for _, name in [*speaking(tree), *vague(tree)]}
    assert set(EXCEPTIONS) <= bound


# The checker is checked: each of these must be found.


@pytest.mark.parametrize(
    "source",
    [
        "said = 1",
        "def _speak(): ...",
        "class LastSaid: ...",
        "class A:\n    asked_at: int",
        "def f(ask): ...",
        "self._said_at = 1",
        "SAY_ALL = ()",
        "import json as told",
        "[heard for heard in x]",
        "def tellOthers(): ...",
    ],
)
def test_finds_words_of_speech(source):
    assert len(speaking(tree_of(source))) == 1


@pytest.mark.parametrize(
    "source", ["essay = 1", "x = file.tell()", "task = shear = 1", "says.x = 1", "f(say=1)"]
)
def test_lets_other_words_pass(source):
    assert speaking(tree_of(source)) == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(found): ...",
        "def f(*given): ...",
        "def f():\n    made = 1",
        "def f():\n    for known in x: ...",
        "def f():\n    if (found := x): ...",
        "def f():\n    with x as (kept, b): ...",
        "def f():\n    try: ...\n    except E as got: ...",
        "def f():\n    match x:\n        case [passed, *b]: ...",
        "class A:\n    def f(self, wanted): ...",
        "class A:\n    x = [done for done in y]",
        "x = {offered: 1 for offered in y}",
        "x = lambda given: 1",
        "if __name__ == '__main__':\n    found = 1",
    ],
)
def test_finds_vague_names(source):
    assert len(vague(tree_of(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    passed: bool = True",
        "class A:\n    done = 0",
        "class A:\n    def kept(self): ...",
        "def f():\n    def found(): ...",
        "def f():\n    known_schemas = self.known = {}",
        "x.made = 1",
        "f(given=1)",
    ],
)
def test_lets_fields_and_longer_names_pass(source):
    assert vague(tree_of(source)) == []
