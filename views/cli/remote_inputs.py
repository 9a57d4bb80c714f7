"""Inputs at urls: what fsspec reads is copied into a folder of the run, which then reads files like any others.

A run reads its input from the first row to the last, once, so a copy costs what reading costs, and a file that changes
meanwhile is read as it was.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import typer

from evercurrent.core.data.errors import first_line
from evercurrent.core.data.release import install_command

from ..connectors.lines import STANDARD_INPUT
from ..store.opening import A_FILE, A_URL
from .applications import ApplicationError


@contextmanager
def local_inputs(
    inputs_by_source: dict[str, list[str]], *, follow: bool = False
) -> Iterator[dict[str, list[Path]]]:
    """Yield the paths of inputs by source: ``-`` is the standard input, and urls are copied; the copies are then deleted.

    Raises:
        ApplicationError: a url cannot be read.
    """
    urls = [text for texts in inputs_by_source.values() for text in texts if is_remote(text)]
    if follow and urls:
        raise typer.BadParameter(
            f"{urls[0]}: a url is read once; follow a file or a folder of this machine", param_hint="--follow"
        )
    with tempfile.TemporaryDirectory(prefix="evercurrent-inputs-") as folder:
        place = {url: Path(folder) / str(number) for number, url in enumerate(urls)}
        yield {
            source: [_copied(text, place[text]) if text in place else local_path(text) for text in texts]
            for source, texts in inputs_by_source.items()
        }


def is_remote(text: str) -> bool:
    """Return whether a text is a url of anything but a file of this machine.

    >>> is_remote("s3://bucket/rows.csv"), is_remote("file:///rows.csv"), is_remote("rows.csv")
    (True, False, False)
    """
    return A_URL.match(text) is not None and A_FILE.match(text) is None


def local_path(text: str) -> Path:
    """Return the path of an input of this machine."""
    if text == "-":
        return STANDARD_INPUT
    return Path(unquote(A_FILE.sub("", text))) if A_FILE.match(text) else Path(text)


def _copied(url: str, folder: Path) -> Path:
    """Copy the file, or all files of the folder, at a url, and return its path, which ends as the url does."""
    file_system, path = _opened(url)
    parts = [part for part in urlsplit(path).path.split("/") if part not in ("", ".", "..")]
    target = folder.joinpath(*(parts or ["input"]))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        if not target.suffix and file_system.isdir(path):
            file_system.get(path.rstrip("/") + "/", f"{target}/", recursive=True)
        else:
            with file_system.open(path, "rb") as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    except Exception as error:
        # A file system of fsspec raises what its library raises.
        # It also raises FileNotFoundError where no server answers, from an error with this reason.
        cause = error.__cause__ or error
        is_absent = isinstance(cause, FileNotFoundError) or getattr(cause, "status", None) == 404
        what = "there is nothing here" if is_absent else first_line(cause) or repr(cause)
        if isinstance(
            cause, IsADirectoryError
        ):  # A web server shows a folder as a page, and fsspec copies that too.
            what = "it is a folder, of which a web server gives no list of files; give the url of each file"
        raise ApplicationError(
            f"{url}: cannot be read: {what}; correct the url, or copy the file and give its path"
        ) from error
    return target


def _opened(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs  # Only urls need it.
    except ImportError:
        raise ApplicationError(
            f"{url}: urls need fsspec; install it: {install_command('object-store')}"
        ) from None
    try:
        file_system, path = url_to_fs(url)
    except Exception as error:
        # It may lack a library, or have no such urls.
        raise ApplicationError(
            f"{url}: cannot be opened: {first_line(error)}; copy the file and give its path"
        ) from error
    return file_system, str(path)
