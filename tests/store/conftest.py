"""One store of every kind; the S3 server runs in this process."""

import logging
import threading
import uuid

import pytest

from evercurrent.views.store import FsspecStore, store_at


@pytest.fixture(scope="session")
def s3_options():
    """How to reach a server that speaks S3 and has a bucket called ``bucket``."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    moto = pytest.importorskip("moto.server", reason="moto with its server is not installed")
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = one_at_a_time(moto.DomainDispatcherApplication(moto.create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=moto.MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    options = {
        "key": "of-no-account",
        "secret": "of-no-account",
        "client_kwargs": {"endpoint_url": f"http://127.0.0.1:{server.server_port}"},
    }
    import s3fs

    s3fs.S3FileSystem(**options).mkdir("bucket")
    yield options
    server.shutdown()
    thread.join()
    server.server_close()


def one_at_a_time(application):
    """A WSGI application that begins a request when the one before is answered.

    S3 puts a name on condition in one step. moto looks whether the name is free and writes it some lines later, so
    of two requests that meet there both are told that they have it. Connections have threads all the same: one
    that is kept open and idle holds up nobody.
    """
    lock = threading.Lock()

    def answer(environ, start_response):
        with lock:
            return application(environ, start_response)

    return answer


@pytest.fixture(scope="session", autouse=True)
def plain_protocol():
    """``plain://``: a file system of fsspec that has no exclusive writes of its own."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    from fsspec.implementations.local import LocalFileSystem

    class Plain(LocalFileSystem):
        protocol = "plain"

    fsspec.register_implementation("plain", Plain, clobber=True)


@pytest.fixture(params=["folder", "memory", "s3", "plain"])
def store(request, tmp_path):
    """A new store of each kind."""
    if request.param == "folder":
        return store_at(tmp_path / "checkpoint")
    if request.param == "memory":
        return store_at(f"memory://{uuid.uuid4()}/checkpoint")
    if request.param == "plain":
        return store_at(f"plain://{tmp_path}/checkpoint")
    options = request.getfixturevalue("s3_options")
    return FsspecStore(f"s3://bucket/{uuid.uuid4()}", options=options)
