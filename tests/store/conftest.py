"""One store of every kind; the S3 server runs in this process."""

import uuid

import pytest

from evercurrent.views.store import FsspecStore, store_at
from s3_server import options_for, s3_server


@pytest.fixture(scope="session")
def s3_options():
    """How to reach a server with the API of S3 that has a bucket called ``bucket``."""
    with s3_server() as url:
        yield options_for(url)


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
