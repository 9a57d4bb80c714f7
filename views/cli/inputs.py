"""The input of a command: ``--input SOURCE=PATH``, or rows that the application makes."""

from pathlib import Path

import typer

from evercurrent.core.data.schema import listed

from ..connectors.delta_files import STANDARD_OUTPUT
from ..connectors.file_columns import AS_WRITTEN, Reading
from ..connectors.files import Reader, is_unfinished
from ..connectors.lines import STANDARD_INPUT
from .applications import Application, ApplicationError
from .feeds import ArrivingFeed, Feed, FileFeed, MadeFeed
from .guards import Stop
from .remote_inputs import is_remote, local_path

READ_ROWS = 10_000
"""The rows read at once for an application that lets them arrive in another order."""


def texts_by_name(option: str, form: str, arguments: list[str]) -> dict[str, list[str]]:
    """Split ``NAME=PATH`` into names, each with its paths as they are written; anything else is wrong usage."""
    texts: dict[str, list[str]] = {}
    for text in arguments:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise typer.BadParameter(f"{text!r} is not of the form {form}", param_hint=option)
        texts.setdefault(name, []).append(path)
    return texts


def pairs(option: str, form: str, arguments: list[str], standard: Path) -> dict[str, list[Path]]:
    """Split ``NAME=PATH`` into names and paths of this machine. The path ``-`` stands for ``standard``."""
    return {
        name: [standard if path == "-" else Path(path) for path in paths]
        for name, paths in texts_by_name(option, form, arguments).items()
    }


def require_once(inputs_by_source: dict[str, list[str]]) -> None:
    """Check that no file is an input of a source twice, by itself or in a folder; anything else is wrong usage."""
    for source, texts in inputs_by_source.items():
        text_of: dict[str, str] = {}
        for text in texts:
            if (place := _place(text)) in text_of:
                others = "" if text == text_of[place] else f", as {text_of[place]} too"
                raise typer.BadParameter(
                    f"source {source!r}: {text} is given twice{others}", param_hint="--input"
                )
            text_of[place] = text
        for text in texts:
            folder, name = _folder_and_name(text)
            if folder in text_of and not is_unfinished(name):
                raise typer.BadParameter(
                    f"source {source!r}: {text} is given twice, as {text_of[folder]} is its folder, of which all files are read",
                    param_hint="--input",
                )


def _place(text: str) -> str:
    """Return the same for all texts of an input; the standard input, which is checked elsewhere, has several places."""
    if is_remote(text):
        return text.rstrip("/")
    path = local_path(text)
    return text if path == STANDARD_INPUT else str(path.resolve())


def _folder_and_name(text: str) -> tuple[str, str]:
    """Return the place of the folder in which an input is, and the input's name in it; "" where there is no folder."""
    if not is_remote(text):
        path = local_path(text).absolute()
        return str(path.parent.resolve()), path.name
    folder, _, name = text.rstrip("/").rpartition("/")
    return ("" if text.startswith("http") else folder), name  # A web server has no folders.


def require_apart(inputs: dict[str, list[Path]], deltas: dict[str, list[Path]], contents: list[Path]) -> None:
    """Check that no file is written over an input, into a folder that is read, or by two options; anything else is wrong usage."""
    if sum(files.count(STANDARD_INPUT) for files in inputs.values()) > 1:
        raise typer.BadParameter("the standard input is given twice", param_hint="--input")
    read = {path.resolve() for files in inputs.values() for path in files if path != STANDARD_INPUT}
    written: set[Path] = set()
    options = [("--deltas", path) for files in deltas.values() for path in files]
    for option, path in [*options, *(("--output", path) for path in contents)]:
        if path == STANDARD_OUTPUT:
            continue
        file = path.resolve()
        if file in read:
            raise typer.BadParameter(
                f"{path} is an input too, and would be overwritten; give another path", param_hint=option
            )
        if file.parent in read:
            raise typer.BadParameter(
                f"{path} is in a folder that is read as an input; give a path outside of it",
                param_hint=option,
            )
        if file in written:
            raise typer.BadParameter(f"{path} is written twice; give another path", param_hint=option)
        written.add(file)


def feed_of(
    application: Application,
    paths: dict[str, list[Path]],
    batch_rows: int,
    follow: bool,
    stop: Stop,
    reading: Reading = AS_WRITTEN,
) -> Feed:
    """Return the feed of the files given for sources, or of the rows that the application makes.

    Raises:
        ApplicationError: a source does not exist, or there is nothing to read.
    """
    sources = application.engine.sources
    if unknown := [name for name in paths if name not in sources]:
        raise ApplicationError(
            f"{application.name}: there is no source {listed(unknown)}; there are {listed(sources)}: "
            "correct the name in --input"
        )
    if paths:
        arrivals = None if follow else application.arrivals
        readers = {
            name: Reader(
                name,
                feed,
                sources[name].arriving,
                diffs=sources[name].kind != "append" and sources[name].format is None,
                batch_rows=batch_rows if arrivals is None else max(batch_rows, READ_ROWS),
                reading=reading,
            )
            for name, feed in paths.items()
        }
        for reader in readers.values() if not follow else ():
            reader.require_files()
        files = FileFeed(readers, follow=follow, stop=stop)
        return files if arrivals is None else ArrivingFeed(files, arrivals, batch_rows)
    if application.inputs is None:
        first = next(iter(sources), "SOURCE")
        raise ApplicationError(
            f"{application.name}: there is nothing to read: the application makes no input of its own; "
            f"give --input {first}=PATH"
        )
    return MadeFeed(application.inputs(batch_rows), application.input_rows)
