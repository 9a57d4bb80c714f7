"""Stores behind urls: conditional writes, copies on this machine, and servers that refuse."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from evercurrent.core.data.errors import CheckpointError, CheckpointWarning, NameTakenError
from evercurrent.core.data.release import install_command
from evercurrent.views.store import FsspecStore, LocalStore, store_at
from store.confined import mounted

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")


@pytest.fixture
def s3_store(s3_options):
    return FsspecStore(f"s3://bucket/{uuid.uuid4()}", options=s3_options)


@pytest.fixture
def requests(s3_store, monkeypatch):
    """The requests that S3 gets, by name."""
    import s3fs

    sent = []
    call = s3fs.S3FileSystem._call_s3

    async def counted(self, method, *args, **named):
        sent.append((method, named.get("IfNoneMatch")))
        return await call(self, method, *args, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", counted)
    return sent


def test_s3_receives_conditional_writes(s3_store, requests):
    """Each put is one request, with the condition that the name is free; the server refuses the second."""
    s3_store.put("commits/1", [b"x"])
    with pytest.raises(NameTakenError):
        s3_store.put("commits/1", [b"x"])
    assert requests == [("put_object", "*")] * 2


def test_a_file_in_many_parts_is_conditional_too(s3_store, requests):
    """Beyond 100 MB S3 takes a file in parts: the last request makes it appear, or not."""
    data = bytes(101 << 20)
    s3_store.put("pieces/big", [data])
    assert ("complete_multipart_upload", "*") in requests
    assert s3_store.list("")[0].size == len(data)


def test_a_second_read_requests_nothing(s3_store, requests):
    s3_store.put("commits/1", [b"x"])
    there = FsspecStore(s3_store.url, options=s3_store._options, cache_bytes=1 << 20)
    s3_store.put("pieces/a", [b"x" * 1000])
    requests.clear()
    assert there.read("pieces/a").equals(s3_store.read("pieces/a"))
    assert len(requests) == 1
    assert there.read("pieces/a").size == 1000
    assert len(requests) == 1
    there.read("commits/1")
    there.read("commits/1")
    assert len(requests) == 3


def test_what_was_put_is_read_without_a_request(s3_store, requests):
    s3_store.put("pieces/a", [b"x" * 1000])
    requests.clear()
    assert s3_store.read("pieces/a").to_pybytes() == b"x" * 1000
    assert requests == []


def test_copies_are_bounded(s3_options, tmp_path, requests):
    """The file that was read longest ago goes; one larger than the bound is read and not kept; no names are left."""
    url = f"s3://bucket/{uuid.uuid4()}"
    store = FsspecStore(url, options=s3_options, cache_folder=tmp_path, cache_bytes=3000)
    store.put_all([(f"pieces/{name}", [name.encode() * 1000]) for name in "abc"])
    store.put("pieces/large", [b"l" * 3001])
    requests.clear()
    for name in "abca":
        assert store.read(f"pieces/{name}").to_pybytes() == name.encode() * 1000
    assert requests == []
    store.put("pieces/d", [b"d" * 1000])
    for name in "acd":
        store.read(f"pieces/{name}")
    assert [method for method, _ in requests] == ["put_object"]
    store.read("pieces/b")
    assert len(requests) == 2
    assert store.read("pieces/large").to_pybytes() == b"l" * 3001
    assert list(tmp_path.iterdir()) == []


def test_a_copy_is_a_mapped_file(s3_options, tmp_path):
    store = FsspecStore(f"s3://bucket/{uuid.uuid4()}", options=s3_options, cache_folder=tmp_path)
    store.put("pieces/a", [b"x" * 100_000])
    address = store.read("pieces/a").address
    lines = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line]
    spans = [tuple(int(each, 16) for each in line.split()[0].split("-")) for line in lines]
    assert any(start <= address < end for start, end in spans)


def test_no_room_for_copies(s3_options, tmp_path):
    """A put does not need one; a read names where the room was missing."""
    url = f"s3://bucket/{uuid.uuid4()}"
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=64k", "tmpfs") as folder:
        store = FsspecStore(url, options=s3_options, cache_folder=folder)
        store.put("pieces/a", [b"x" * 200_000])
        with pytest.raises(CheckpointError, match=rf"pieces/a.*{folder}.*no room"):
            store.read("pieces/a")
        assert list(folder.iterdir()) == []
        del store


def test_no_folder_for_copies(s3_options, tmp_path):
    """It is made; where it cannot be, the error is about that, and not about a missing file."""
    url = f"s3://bucket/{uuid.uuid4()}"
    store = FsspecStore(url, options=s3_options, cache_folder=tmp_path / "new")
    store.put("pieces/a", [b"x"])
    assert (tmp_path / "new").is_dir()
    (tmp_path / "file").write_text("")
    store = FsspecStore(url, options=s3_options, cache_folder=tmp_path / "file" / "x")
    store.put("pieces/b", [b"x"])
    with pytest.raises(CheckpointError, match=rf"pieces/b.*{tmp_path}/file/x.*not a folder"):
        store.read("pieces/b")


def test_a_bucket_that_is_not_there(s3_options):
    """It is not made, nor taken for an empty one."""
    store = FsspecStore("s3://nobodys-bucket/x", options=s3_options)
    for work in (
        lambda: store.put("commits/1", [b"x"]),
        lambda: store.read("commits/1"),
        lambda: store.list(""),
        lambda: store.lock().__enter__(),
    ):
        with pytest.raises(CheckpointError, match=r"s3://nobodys-bucket/x.*no such folder or bucket"):
            work()


def test_a_server_that_is_not_there():
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    options = {
        "key": "of-no-account",
        "secret": "of-no-account",
        "client_kwargs": {"endpoint_url": "http://127.0.0.1:9"},
        "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1},
    }
    store = FsspecStore("s3://bucket/x", options=options)
    store._fs.retries = 1
    with pytest.raises(CheckpointError, match=r"s3://bucket/x: commits/1 was not written.*127\.0\.0\.1:9"):
        store.put("commits/1", [b"x"])


class _RefusalError(Exception):
    """As botocore raises them."""

    def __init__(self, code):
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


def _answering(s3_store, monkeypatch, codes):
    """S3 refuses with these words, one after another, and then does its work."""
    from s3fs.errors import translate_boto_error

    put = s3_store._fs.pipe_file
    left = list(codes)

    def refusing(*args, **named):
        if left:
            raise translate_boto_error(_RefusalError(left.pop(0)))
        return put(*args, **named)

    monkeypatch.setattr(s3_store._fs, "pipe_file", refusing)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return left


def test_conditional_writes_that_meet_are_tried_again(s3_store, monkeypatch):
    """S3 neither accepts nor refuses while another one's write of the name is under way."""
    left = _answering(s3_store, monkeypatch, ["ConditionalRequestConflict"] * 3)
    s3_store.put("commits/1", [b"x"])
    assert left == []
    assert s3_store.read("commits/1").to_pybytes() == b"x"


def test_conflicts_without_end(s3_store, monkeypatch):
    _answering(s3_store, monkeypatch, ["ConditionalRequestConflict"] * 100)
    with pytest.raises(CheckpointError, match="commits/1"):
        s3_store.put("commits/1", [b"x"])
    monkeypatch.undo()
    assert s3_store.list("") == []


def test_refusals_of_servers_with_fewer_details(s3_store, monkeypatch):
    """Not all servers with the API of S3 name the condition that failed."""
    _answering(s3_store, monkeypatch, ["PreconditionFailed"])
    with pytest.raises(NameTakenError):
        s3_store.put("commits/1", [b"x"])


def test_no_permission(s3_store, monkeypatch):
    _answering(s3_store, monkeypatch, ["AccessDenied"])
    with pytest.raises(CheckpointError, match=r"lacks permission.*credentials"):
        s3_store.put("commits/1", [b"x"])


def test_a_server_that_ignores_conditions(s3_store, monkeypatch, recwarn):
    """It is found out by trying, when the one writer begins; nothing is left of it."""
    with s3_store.lock():
        assert not [each for each in recwarn if issubclass(each.category, CheckpointWarning)]
    put = s3_store._fs.pipe_file
    monkeypatch.setattr(s3_store._fs, "pipe_file", lambda path, content, mode: put(path, content))
    with pytest.warns(CheckpointWarning, match="only one process writes"), s3_store.lock():
        pass
    assert s3_store._fs.find(s3_store._root) == []


def test_a_trial_whose_response_was_lost(s3_store, monkeypatch, recwarn):
    """The client repeats the write, and is refused the name that it has."""
    put = s3_store._fs.pipe_file

    def repeated(path, content, mode):
        put(path, content, mode=mode)
        put(path, content, mode=mode)

    monkeypatch.setattr(s3_store._fs, "pipe_file", repeated)
    with s3_store.lock():
        assert not [each for each in recwarn if issubclass(each.category, CheckpointWarning)]
    assert s3_store._fs.find(s3_store._root) == []


def test_a_file_system_without_exclusive_writes(tmp_path):
    """Files appear whole all the same, and a writer gets a warning that nothing stops a second one."""
    store = store_at(f"plain://{tmp_path}/checkpoint")
    with pytest.warns(CheckpointWarning, match="only one process writes"), store.lock():
        store.put("pieces/a", [b"x"])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a"]


@pytest.mark.parametrize(
    ("where", "path"),
    [
        ("{}", "{}"),
        ("file://{}", "{}"),
        ("file://localhost{}", "{}"),
        ("local://{}", "{}"),
        ("file://{}/a%20b", "{}/a b"),
        ("{}/a%20b", "{}/a%20b"),
        ("{}/a:b", "{}/a:b"),
        ("{}/x/../y", "{}/y"),
    ],
)
def test_paths(tmp_path, where, path):
    store = store_at(where.format(tmp_path))
    assert isinstance(store, LocalStore)
    assert store.url == path.format(tmp_path)
    assert store_at(store.url).url == store.url


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", "give a folder"),
        ("nosuch://x", "nosuch"),
        (Path("s3://bucket/x"), "give a url as text"),
    ],
)
def test_places_that_are_none(where, message):
    with pytest.raises(CheckpointError, match=message):
        store_at(where)


@pytest.mark.parametrize(("where", "url"), [("memory://", "memory://"), ("memory://a//", "memory://a")])
def test_urls(where, url):
    """Written in one way, which leads back."""
    store = store_at(where)
    assert store.url == url
    assert store_at(url).url == url
    name = f"pieces/{uuid.uuid4()}"
    store.put(name, [b"x"])
    assert name in [each.name for each in store_at(url).list("pieces/")]


def test_passwords_are_not_shown():
    store = store_at("memory://me:secret@here/x")
    assert "secret" not in store.url + repr(store)


def test_without_fsspec(tmp_path):
    """The package and folders work; a url is refused with what to install."""
    code = """
import sys
sys.modules["fsspec"] = None
import evercurrent
from evercurrent.views.store import store_at
store_at(sys.argv[1]).put("a", [b"x"])
try:
    store_at("s3://bucket/x")
except Exception as error:
    print(type(error).__name__, error)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    command = [sys.executable, "-c", code, str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    assert output.startswith("CheckpointError")
    assert install_command("s3") in output


def test_without_the_library_of_a_protocol(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(
        fsspec.registry.target if hasattr(fsspec.registry, "target") else {}, "s3", raising=False
    )
    fsspec.registry  # noqa: B018
    from fsspec.registry import _registry

    monkeypatch.delitem(_registry, "s3", raising=False)
    with pytest.raises(CheckpointError, match="s3fs") as caught:
        store_at("s3://bucket/x")
    assert install_command("s3") in str(caught.value)


def test_a_forked_process_reads_and_writes(s3_store):
    """Connections do not survive a fork: the child makes its own."""
    s3_store.put("commits/1", [b"x"])
    child = os.fork()
    if child == 0:
        code = 1
        signal.alarm(300)  # Rather an end than no end, also on a busy machine.
        try:
            s3_store.put("commits/2", [s3_store.read("commits/1").to_pybytes()])
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert s3_store.read("commits/2").to_pybytes() == b"x"
