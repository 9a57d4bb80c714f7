"""The store in a folder: what is left by crashes, what mapping means, and disks that refuse."""

import errno
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evercurrent.core.data.errors import CheckpointError, NameTakenError
from evercurrent.views.store import LocalStore, store_at
from store.confined import another_user, mounted

ROOT = Path(__file__).resolve().parents[2]


def python(code, *args, **options):
    """Start Python with this code; it finds the package where these tests do."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, **options)


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_big_file_is_mapped_and_not_loaded(tmp_path):
    size = 64 << 20
    store = LocalStore(tmp_path)
    store.put("pieces/big", [np.zeros(size, np.uint8).data])
    resident, allocated = _resident(), pa.total_allocated_bytes()
    buffer = store.read("pieces/big")
    assert buffer.size == size
    assert pa.total_allocated_bytes() == allocated
    assert _resident() - resident < size // 4
    assert _mapping_of(buffer.address) == str(tmp_path / "pieces/big")
    with pytest.raises((TypeError, ValueError)):
        memoryview(buffer)[0] = 1


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _mapping_of(address):
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(each, 16) for each in line.split()[0].split("-"))
        if start <= address < end:
            return line.split(maxsplit=5)[-1]
    return None


def test_reading_keeps_no_file_open(tmp_path):
    store = LocalStore(tmp_path)
    store.put_all([(f"pieces/{i}", [b"x"]) for i in range(200)])
    buffers = [store.read(f"pieces/{i}") for i in range(200)]
    assert [path for path in _open_files() if path.startswith(f"{tmp_path}/pieces")] == []
    assert all(buffer.to_pybytes() == b"x" for buffer in buffers)


def _open_files():
    """The paths that this process has open. Its threads open and close others meanwhile."""
    paths = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return paths


def test_more_files_than_may_be_open(tmp_path):
    code = """
        import resource, sys
        from evercurrent.views.store import LocalStore
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        LocalStore(sys.argv[1]).put_all([(f"pieces/{i}", [b"x"]) for i in range(400)])
    """
    assert python(code, tmp_path).wait() == 0
    assert len(LocalStore(tmp_path).list("pieces/")) == 400


def test_nothing_else_is_left(tmp_path):
    """Neither by a put nor by one that was refused."""
    store = LocalStore(tmp_path)
    store.put("pieces/a", [b"x"])
    with pytest.raises(NameTakenError):
        store.put("pieces/a", [b"y"])
    assert files_in(tmp_path) == ["pieces/a"]


def test_a_put_syncs_the_file_and_then_its_folder(tmp_path, monkeypatch):
    """In this order: the name must not be durable before the bytes are, nor the put done before the name is."""
    calls = []
    sync, link = os.fsync, os.link

    def synced(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        calls.append("folder" if os.path.isdir(path) else "file")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", lambda *paths: (calls.append("link"), link(*paths)))
    store = LocalStore(tmp_path)
    store.put("pieces/a", [b"x"])
    assert calls == ["folder", "file", "link", "folder"]  # The first for the folder that was made.
    calls.clear()
    store.put_all([("pieces/b", [b"x"]), ("pieces/c", [b"x"])])
    assert calls == ["file", "file", "link", "link", "folder"]
    calls.clear()
    store.delete_all(["pieces/a", "pieces/b"])
    assert calls == ["folder"]


def test_a_small_put_costs_two_syncs_and_little_else(tmp_path):
    """Compared with what this thread does for the two syncs alone; what it waits for is counted in the test above."""
    store = LocalStore(tmp_path)
    data = os.urandom(4096)

    def bare(i):
        with open(tmp_path / f"bare-{i}", "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(tmp_path, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def median(work, start):
        took = []
        for i in range(start, start + 40):
            begun = time.thread_time()
            work(i)
            took.append(time.thread_time() - begun)
        return sorted(took)[20]

    store.put("pieces/first", [data])
    took = []
    for turn in range(5):  # On a busy machine one of them is enough.
        own = median(lambda i: store.put(f"pieces/{i}", [data]), turn * 100)
        took.append((own, median(bare, turn * 100)))
        if own < 3 * took[-1][1] + 0.0005:
            break
    assert any(own < 3 * alone + 0.0005 for own, alone in took), (
        f"seconds of a put of 4 kB, of its syncs: {took}"
    )


# Crashes


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_killed_in_the_middle_of_a_put(tmp_path, step):
    """No file of that name, nothing listed; the unfinished one is swept by a lock once it is an hour old."""
    code = """
        import os, sys, time
        from evercurrent.views.store import LocalStore
        store = LocalStore(sys.argv[1])
        store.put("commits/1", [b"whole"])
        def wait(*_):
            print("now", flush=True)
            time.sleep(600)
        setattr(os, sys.argv[2], wait)
        store.put("commits/2", [b"x" * 100_000])
    """
    process = python(code, tmp_path, step)
    assert process.stdout.readline() == "now\n"
    process.kill()
    process.wait()
    store = LocalStore(tmp_path)
    assert [each.name for each in store.list("")] == ["commits/1"]
    (left,) = [path for path in (tmp_path / "commits").iterdir() if path.name != "1"]
    assert left.name.startswith(".")
    with store.lock():
        assert left.exists()
    os.utime(left, (time.time() - 3700,) * 2)
    with store.lock():
        assert files_in(tmp_path) == ["commits/1", "writer.lock"]
    store.put("commits/2", [b"again"])
    assert store.read("commits/2").to_pybytes() == b"again"


@pytest.mark.parametrize("delay", [0.002, 0.01, 0.03, 0.06, 0.1])
def test_killed_at_any_time(tmp_path, delay):
    """Whatever has a name is whole."""
    code = """
        import itertools, sys
        from evercurrent.views.store import LocalStore
        store = LocalStore(sys.argv[1])
        print("now", flush=True)
        for i in itertools.count():
            store.put_all([(f"pieces/{i}-{j}", [bytes([i % 256]) * 300_000] * 3) for j in range(3)])
    """
    process = python(code, tmp_path)
    assert process.stdout.readline() == "now\n"
    time.sleep(delay)
    process.kill()
    process.wait()
    store = LocalStore(tmp_path)
    for each in store.list(""):
        turn = int(each.name.removeprefix("pieces/").partition("-")[0])
        assert store.read(each.name).to_pybytes() == bytes([turn % 256]) * 900_000


def test_folders_without_links(tmp_path, monkeypatch):
    """As some file systems are: names are still taken once, and nothing is left."""

    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    store = LocalStore(tmp_path)
    results = []
    start = threading.Barrier(8)

    def put(i):
        start.wait()
        try:
            store.put("pieces/a", [bytes([i]) * 1000])
            results.append(i)
        except NameTakenError:
            results.append(None)

    threads = [threading.Thread(target=put, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [each for each in results if each is not None]
    assert len(results) == 8
    assert store.read("pieces/a").to_pybytes() == bytes([winner]) * 1000
    assert [each.name for each in store.list("")] == ["pieces/a"]
    assert [name for name in files_in(tmp_path) if ".part" in name] == []


def test_a_link_whose_answer_was_lost(tmp_path, monkeypatch):
    """On a network file system: the second attempt finds the name taken, by this very file."""
    link = os.link

    def twice(old, new):
        link(old, new)
        link(old, new)

    monkeypatch.setattr(os, "link", twice)
    store = LocalStore(tmp_path)
    store.put("pieces/a", [b"x"])
    with pytest.raises(NameTakenError):
        store.put("pieces/a", [b"y"])
    assert store.read("pieces/a").to_pybytes() == b"x"


# The lock

HOLD = """
    import os, sys, time
    from evercurrent.views.store import LocalStore
    with LocalStore(sys.argv[1]).lock():
        print("locked", flush=True)
        {then}
"""


def test_two_processes_and_the_lock(tmp_path):
    """Refused by process number while the other lives; given at once after ``kill -9``."""
    process = python(HOLD.format(then="time.sleep(600)"), tmp_path)
    assert process.stdout.readline() == "locked\n"
    store = LocalStore(tmp_path)
    with pytest.raises(CheckpointError, match=f"process {process.pid} on ") as caught, store.lock():
        pass
    assert str(tmp_path) in str(caught.value)
    process.kill()
    process.wait()
    with store.lock():
        assert f"process {os.getpid()} on " in (tmp_path / "writer.lock").read_text()


def test_a_child_does_not_keep_the_lock(tmp_path):
    """Made by fork while the lock was held, it outlives its killed parent."""
    then = "child = os.fork(); print(child, flush=True) if child else None; time.sleep(600)"
    process = python(HOLD.format(then=then), tmp_path)
    assert process.stdout.readline() == "locked\n"
    child = int(process.stdout.readline())
    try:
        with pytest.raises(CheckpointError), LocalStore(tmp_path).lock():
            pass
        process.kill()
        process.wait()
        os.kill(child, 0)
        assert any(may_lock(tmp_path) for _ in range(6000)), (
            "the child lets go as soon as it runs, which may be later"
        )
    finally:
        os.kill(child, 9)


def may_lock(folder):
    """Whether the lock can be had now; if not, after a little while."""
    try:
        with LocalStore(folder).lock():
            return True
    except CheckpointError:
        time.sleep(0.1)
        return False


# Disks that refuse


def test_a_full_disk(tmp_path):
    """The error names how many bytes found no room; what was there is there; nothing is left of what was not written."""
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as folder:
        store = LocalStore(folder)
        store.put("pieces/a", [b"x" * 100_000])
        with pytest.raises(CheckpointError, match=r"pieces/b.*no room.* 5,000,000 bytes") as caught:
            store.put("pieces/b", [b"y" * 5_000_000])
        assert str(folder) in str(caught.value)
        with pytest.raises(CheckpointError, match=r"pieces/d.*no room"):
            store.put_all([("pieces/c", [b"z" * 500_000]), ("pieces/d", [b"z" * 5_000_000])])
        assert files_in(folder) == ["pieces/a"]
        store.put("pieces/b", [b"y" * 800_000])
        assert store.read("pieces/a").to_pybytes() == b"x" * 100_000
        del store


def test_a_bound_on_the_size_of_files(tmp_path):
    """The same by another fault, where nothing can be mounted."""
    code = """
        import resource, sys
        from evercurrent.views.store import LocalStore
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        store = LocalStore(sys.argv[1])
        store.put("pieces/a", [b"x" * 50_000])
        try:
            store.put("pieces/b", [b"x" * 50_001])
        except Exception as error:
            print(type(error).__name__, error)
    """
    output = python(code, tmp_path).communicate()[0]
    assert output.startswith("CheckpointError")
    assert "pieces/b" in output
    assert "bigger" in output
    assert files_in(tmp_path) == ["pieces/a"]


def test_a_read_only_mount(tmp_path):
    """Can be read; an error names why it cannot be written or locked."""
    folder = tmp_path / "checkpoint"
    LocalStore(folder).put("pieces/a", [b"x"])
    with mounted(tmp_path / "frozen", "-o", "bind,ro", str(folder)) as frozen:
        store = LocalStore(frozen)
        assert store.read("pieces/a").to_pybytes() == b"x"
        assert [each.name for each in store.list("")] == ["pieces/a"]
        for work in (
            lambda: store.put("pieces/b", [b"y"]),
            lambda: store.put("commits/b", [b"y"]),
            lambda: store.delete("pieces/a"),
            lambda: store.lock().__enter__(),
        ):
            with pytest.raises(CheckpointError, match="read-only") as caught:
                work()
            assert str(frozen) in str(caught.value)


def test_a_folder_of_somebody_else():
    with another_user() as folder:
        store = LocalStore(folder)
        assert store.list("") == []
        for work in (lambda: store.put("pieces/a", [b"y"]), lambda: store.lock().__enter__()):
            with pytest.raises(CheckpointError, match=r"this user lacks permission.*permissions") as caught:
                work()
            assert str(folder) in str(caught.value)


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="is not a folder"):
        store_at(tmp_path / "file")
    with pytest.raises(CheckpointError, match="file and not a folder"):
        store_at(tmp_path / "file" / "checkpoint").put("a", [b""])
    (tmp_path / "pieces").write_text("x")
    with pytest.raises(CheckpointError, match="file and not a folder"):
        store_at(tmp_path).put("pieces/a", [b""])


def test_a_name_that_is_too_long(tmp_path):
    with pytest.raises(CheckpointError, match="too long"):
        store_at(tmp_path).put("a" * 300, [b""])


def test_an_error_of_the_disk_at_sync(tmp_path, monkeypatch):
    """The bytes may be lost: the name is not given."""

    def fail(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    store = LocalStore(tmp_path)
    store.put("pieces/first", [b""])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(CheckpointError, match=r"pieces/a.*failed"):
            store.put("pieces/a", [b"x"])
    assert files_in(tmp_path) == ["pieces/first"]


def test_reading_makes_nothing(tmp_path):
    """A reader of a checkpoint that is not there leaves no trace of itself."""
    store = store_at(tmp_path / "none")
    assert store.list("") == []
    store.delete("pieces/a")
    assert list(tmp_path.iterdir()) == []


def test_links_of_the_user_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store_at(tmp_path / "link").put("pieces/a", [b"x"])
    assert files_in(tmp_path / "real") == ["pieces/a"]


def test_a_relative_path_means_the_same_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = store_at("checkpoint")
    monkeypatch.chdir("/")
    pickle.loads(pickle.dumps(store)).put("a", [b"x"])
    assert files_in(tmp_path) == ["checkpoint/a"]
