"""Names are those of what they hold: no identifier is built of words of speech, no local variable is called by how it came.

A pane is emitted, a trigger fires, a row is refused, an error names, a log shows; nothing in the code "speaks", "hears", "knows", is "asked" or "told". A variable that
is called ``found`` or ``made`` has to be followed back to be understood, one that is called ``matching_rows`` does not. Only
names that are bound are looked at: what libraries call theirs is their own. Fields of classes and names of methods may be
participles, as ``report.passed`` is read with the name of its object.

Comments and docstrings are held to the same words of speech, as are the tests. What they quote is not theirs: code in backticks or called as a method, text between double quotes, addresses.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache

import pytest

from source_modules import LAYERS, ROOT, tree_of

VERBS_OF_SPEECH = (
    "ask(?:s|ed|ing)?|hear(?:s|d|ing)?|know(?:s|ing)?|knew|learn(?:s|ed|t|ing)?|(?:un)?sa(?:y|ys|id|ying)"
    "|sp(?:eak|eaks|oke|oken|eaking)|talk(?:s|ed|ing)?|t(?:ell|ells|old|elling)|want(?:s|ed|ing)?"
)
"""Words that neither an identifier is built of nor a sentence uses; ``known``, as the opposite of unknown, is none of them."""

IN_SENTENCES = re.compile(rf"\b(?:{VERBS_OF_SPEECH})\b", re.IGNORECASE)

QUOTED = re.compile(r"""(?s:``.+?``|`[^`]+`)|"[^"\n]*"|\w+://\S+|\.\w+\(""")
"""What a sentence quotes: code, texts of the product or of others, addresses, and methods where they are called."""

HOW_IT_CAME = "done|found|given|got|kept|known|made|meant|offered|passed|taken|wanted"
"""Names that no local variable and no parameter has: they are of how it came and not of what it is."""

EXCEPTIONS = {
    ("views/checkpoint/piece_files.py", "tell"): "Arrow calls it, as it does with a file.",
}
"""By file and name, why a name stays all the same."""

FOLDERS = (*LAYERS, "bench")
TESTS = "tests"

Bound = Iterator[tuple[int, str]]
"""Lines, each with a name or a sentence."""


@cache
def texts() -> dict[str, str]:
    """The modules of the layers, of the benchmarks and of the tests, by path."""
    paths = [
        path
        for folder in (*FOLDERS, TESTS)
        for path in sorted((ROOT / folder).rglob("*.py"))
        if ".envs" not in path.parts
    ]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def texts_with(words: str, folders: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The modules of these folders, by path, in which one of these words may be part of a name: others need not be parsed."""
    has_one = re.compile(rf"(?i:{words})(?![a-z])").search
    for path, text in texts().items():
        if path.partition("/")[0] in folders and has_one(text):
            yield path, text


@cache
def tree_at(path: str) -> ast.Module:
    """The syntax tree of a module."""
    return tree_of(texts()[path])


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
def names_of_speech(tree: ast.AST) -> list[tuple[int, str]]:
    """The names of a module that are built of words of speech."""
    is_one = re.compile(VERBS_OF_SPEECH).fullmatch
    return [(line, name) for line, name in identifiers(tree) if any(map(is_one, words_of(name)))]


def sentences_of(source: str) -> Bound:
    """The comments and docstrings of a module, also those below a variable, with the lines where they begin."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(tree_of(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                yield node.lineno, docstring


def words_of_speech(source: str) -> list[tuple[int, str]]:
    """The words of ``VERBS_OF_SPEECH`` in the sentences of a module, in small letters, apart from what they quote."""
    return [
        (line, word.lower())
        for line, sentence in sentences_of(source)
        for word in IN_SENTENCES.findall(QUOTED.sub(" ", sentence))
    ]


@cache
def vague(tree: ast.AST) -> list[tuple[int, str]]:
    """The local names of a module that are of how something came."""
    return [(line, name) for line, name in local_names(tree) if re.fullmatch(HOW_IT_CAME, name)]


def shown(path: str, names: list[tuple[int, str]]) -> list[str]:
    return [f"{path}:{line}: {name}" for line, name in names if (path, name) not in EXCEPTIONS]


def test_all_folders_are_read():
    assert {path.partition("/")[0] for path in texts()} == {*FOLDERS, TESTS}


def test_no_identifier_is_built_of_words_of_speech():
    wrong = [
        line
        for path, _ in texts_with(VERBS_OF_SPEECH, (*FOLDERS, TESTS))
        for line in shown(path, names_of_speech(tree_at(path)))
    ]
    assert wrong == [], (
        "panes are emitted, triggers fire, errors name, windows are requested: choose such a word"
    )


def test_no_sentence_uses_verbs_of_speech():
    uses = [
        (path, line, word)
        for path, text in texts_with(VERBS_OF_SPEECH, (*FOLDERS, TESTS))
        for line, word in words_of_speech(text)
    ]
    wrong = [f"{path}:{line}: {word}" for path, line, word in uses]
    assert wrong == [], (
        "deltas are received, figures reported, errors contain, names are distinguished; quote what is not yours"
    )


def test_no_local_name_is_only_of_how_it_came():
    wrong = [
        line for path, _ in texts_with(HOW_IT_CAME, FOLDERS) for line in shown(path, vague(tree_at(path)))
    ]
    assert wrong == [], "call it by what it holds, as matching_rows; or give the reason in EXCEPTIONS"


def test_exceptions_are_needed():
    bound = {
        (path, name)
        for path, name in EXCEPTIONS
        if any(name == other for _, other in (*names_of_speech(tree_at(path)), *vague(tree_at(path))))
    }
    assert set(EXCEPTIONS) == bound


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
        "def test_an_error_says_why(): ...",
        "knows_keys = 1",
        "class A:\n    def wants(self): ...",
    ],
)
def test_finds_words_of_speech(source):
    assert len(names_of_speech(tree_of(source))) == 1


@pytest.mark.parametrize(
    "source", ["essay = 1", "x = file.tell()", "task = shear = 1", "says.x = 1", "f(say=1)", "known_keys = 1"]
)
def test_lets_other_words_pass(source):
    assert names_of_speech(tree_of(source)) == []


@pytest.mark.parametrize(
    "source",
    [
        "x = 1  # What it hears.",
        '"""Windows that SPEAK."""',
        'def f():\n    """Rows that are told apart."""',
        'class A:\n    x: int = 1\n    """Tells which."""',
        'x = 1\n"""Emitted once, spoken twice."""',
        "# Spark does not ask for them.",
        '"""The message says why, as "rows say" and ``known`` do not."""',
        "def f():\n    # Nobody knows whose it is.\n    ...",
        "# It was heard, 'as' they write: \"never\" mind.",
    ],
)
def test_finds_words_of_speech_in_sentences(source):
    assert len(words_of_speech(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'raise Error("cannot tell which")',
        'x = f("told", heard=1)  # A teller in a shearing shed, retold.',
        "# See https://example.org/what/they-tell and s3://bucket/heard.",
        '# The error is "cannot tell the columns apart".',
        '"""The position is ``file.tell()``, `told` before;\n\n>>> file.tell()\n3\n"""',
    ],
)
def test_lets_quotations_pass(source):
    assert words_of_speech(source) == []


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
