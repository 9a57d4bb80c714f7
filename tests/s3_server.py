"""A server in this process with the API of S3, for tests of stores and of Spark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

ACCOUNT = "of-no-account"


@contextmanager
def s3_server() -> Iterator[str]:
    """The url of a server that has a bucket called ``bucket``, which all servers of a process share; the test is skipped where moto or s3fs is not installed."""
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    moto = pytest.importorskip("moto.server", reason="moto with its server is not installed")
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = one_at_a_time(moto.DomainDispatcherApplication(moto.create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=moto.MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    buckets = s3fs.S3FileSystem(**options_for(url))
    if not buckets.exists("bucket"):
        buckets.mkdir("bucket")
    yield url
    server.shutdown()
    thread.join()
    server.server_close()


def options_for(url: str) -> dict[str, Any]:
    """How fsspec reaches the server."""
    return {"key": ACCOUNT, "secret": ACCOUNT, "client_kwargs": {"endpoint_url": url}}


def one_at_a_time(
    application: Callable[[Any, Any], Iterable[bytes]],
) -> Callable[[Any, Any], Iterable[bytes]]:
    """A WSGI application that begins a request when the one before is answered.

    S3 puts a name on condition in one step. moto looks whether the name is free and writes it some lines later, so
    of two requests that meet there both get the answer that it is theirs. Connections have threads all the same: one
    that is kept open and idle holds up nobody.
    """
    lock = threading.Lock()

    def answer(environ: Any, start_response: Any) -> Iterable[bytes]:
        with lock:
            return application(environ, start_response)

    return answer
