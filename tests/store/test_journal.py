"""The journal of a folder: a power failure takes away what was not synced, and everything committed is there again."""

import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from itertools import cycle, product
from pathlib import Path

import pytest

from evercurrent.core.data.errors import CheckpointError, MissingFileError, NameTakenError
from evercurrent.views.store import LocalStore, journal
from evercurrent.views.store.healing import heal
from evercurrent.views.store.journal import entries_of
from evercurrent.views.store.protocol import JOURNALS
from power_failure import LOSSES, Synced
from thinned import some_of

ROOT = Path(__file__).resolve().parents[2]


def files_in(folder):
    """By name what is in the files, without the store's own."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if not path.name.startswith((".", "writer."))
    }


def commit(store, number, size=5000):
    """A commit of three files; returns what they hold."""
    files = {
        f"pieces/{number}.arrow": bytes([number % 256]) * size,
        f"deltas/v/{number}.arrow": b"delta %d" % number,
        f"commits/{number:012}.json": b"record %d" % number,
    }
    *items, (name, data) = ((name, [data[: size // 3], data[size // 3 :]]) for name, data in files.items())
    store.commit(store.put_ahead(items), name, data)
    return files


FULL = (1, 12_000, 1 << 20)


@pytest.mark.parametrize(
    ("lost", "full"),
    some_of(product(LOSSES, FULL), [*zip(LOSSES, cycle(FULL), strict=False), *product(["names"], FULL)]),
)
def test_a_power_failure_after_every_commit(tmp_path, monkeypatch, lost, full):
    """All that was committed is there byte for byte, and what was deleted is gone; with journals of any size."""
    loss = LOSSES[lost]
    monkeypatch.setattr(journal, "FULL", full)
    synced, files = Synced(monkeypatch, tmp_path / "real"), {}
    store = LocalStore(tmp_path / "real")
    store.put("checkpoint.json", [b"marker"])
    with store.lock():
        for number in range(12):
            files |= commit(store, number)
            if number in (4, 5, 9):
                gone = [name for name in files if f"{number - 2}." in name]
                store.delete_all(gone)
                files = {name: data for name, data in files.items() if name not in gone}
            left = tmp_path / "left"
            synced.survive(left, loss)
            for _ in range(2):
                with LocalStore(left).lock():
                    assert files_in(left) == {"checkpoint.json": b"marker", **files}, number
    synced.survive(left, LOSSES["names"])
    assert files_in(left) == {"checkpoint.json": b"marker", **files}
    assert sorted(os.listdir(left)) == [
        "checkpoint.json",
        "commits",
        "deltas",
        "pieces",
        "writer.acknowledged",
    ]


def test_each_unsynced_file_is_lost_alone_or_with_others(tmp_path, monkeypatch):
    """All combinations for the files of two commits."""
    synced, store = Synced(monkeypatch, tmp_path / "real"), LocalStore(tmp_path / "real")
    with store.lock():
        files = commit(store, 0) | commit(store, 1)
        for count in range(len(files) + 1):
            for lost in itertools.combinations(files, count):
                paths = {str(tmp_path / "real" / name) for name in lost}
                synced.survive(
                    tmp_path / "left", lambda path, data, paths=paths: None if path in paths else data
                )
                with LocalStore(tmp_path / "left").lock():
                    assert files_in(tmp_path / "left") == files


@pytest.mark.parametrize("kind", ["short", "zeros", "flipped"])
def test_a_journal_that_is_torn_at_any_byte(tmp_path, monkeypatch, kind):
    """Of an entry that is not whole, and of those after it, nothing is there; those before it are."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # Thousands of times.
    store = LocalStore(tmp_path / "real")
    with store.lock():
        files = [commit(store, number, 60) for number in range(2)]
        content = Path(store.url, JOURNALS[1]).read_bytes()
    ends = [content.index(b"record %d" % number) + len(b"record 0") for number in range(2)]
    assert len(content) == 8192
    place = tmp_path / "left"
    every = [*range(ends[0] + 2), *range(4090, ends[1] + 2), len(content) - 1]
    # Where an entry, its record or a page begins or ends, all bytes; of those between them every seventh.
    edges = (0, *ends, 4096, content.index(b"record 0"), content.index(b"record 1"), len(content))
    for at in some_of(
        every, (at for at in every if at % 7 == 0 or min(abs(at - edge) for edge in edges) < 4)
    ):
        place.mkdir()
        torn = {
            "short": content[:at],
            "zeros": content[:at] + bytes(len(content) - at),
            "flipped": content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :],
        }[kind]
        (place / JOURNALS[1]).write_bytes(torn)
        heal(str(place))
        is_between = kind == "flipped" and ends[0] <= at < 4096
        whole = 2 if at >= ends[1] or is_between else int(at >= ends[0])
        assert files_in(place) == dict(each for named in files[:whole] for each in named.items()), at
        assert not any((place / name).exists() for name in JOURNALS)
        shutil.rmtree(place)


def test_healing_may_be_interrupted_at_any_step(tmp_path, monkeypatch):
    store = LocalStore(tmp_path / "real")
    with store.lock():
        files = commit(store, 0) | commit(store, 1)
        store.delete("pieces/0.arrow")
        del files["pieces/0.arrow"]
        for name in JOURNALS:
            shutil.copy(tmp_path / "real" / name, tmp_path)

    class Stop(BaseException):
        pass

    place, steps = tmp_path / "left", itertools.count()
    for stop in itertools.count():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / "pieces").mkdir()
        (place / "pieces" / "0.arrow").write_bytes(b"was to go")
        (place / "pieces" / "1.arrow").write_bytes(b"torn")
        for name in JOURNALS:
            shutil.copy(tmp_path / name, place)
        steps = itertools.count()
        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "unlink", "write"):
                patch.setattr(os, name, _stopping(getattr(os, name), steps, stop, Stop))
            try:
                heal(str(place))
            except Stop:
                ended = False
            else:
                ended = True
        heal(str(place))
        assert files_in(place) == files, stop
        if ended:
            break
    assert stop > 12


def _raised(work, *given):
    try:
        work(*given)
    except Exception as error:
        return error
    return None


def _stopping(work, steps, stop, error, threads=None):
    """With ``threads`` calls of others do not count, as of sinks that other tests have left open."""

    def step(*given):
        if (threads is None or threading.get_ident() in threads) and next(steps) == stop:
            raise error
        return work(*given)

    return step


# What fails while it is written


@pytest.mark.parametrize(
    ("call", "times"),
    [("pwritev", 1), ("open", 3), ("write", 4), ("rename", 2), ("fdatasync", 1), ("link", 1)],
)
def test_a_commit_that_fails_is_not_there_and_does_not_come_back(tmp_path, monkeypatch, call, times):
    """Whichever call of the system fails; the next attempt at the same name succeeds."""
    monkeypatch.setattr(journal, "MOST_SPARES", 0)  # So that the calls are the same every time.
    place, left, failures = tmp_path / "real", tmp_path / "left", 0
    for count in itertools.count():
        store = LocalStore(place)
        with store.lock():
            files = commit(store, 0)
            with monkeypatch.context() as patch:
                refusal = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                # Files are opened in this thread; some are synced in others.
                ours = {threading.get_ident()} if call == "open" else None
                stopping = _stopping(getattr(os, call), itertools.count(), count, refusal, ours)
                patch.setattr(os, call, stopping)
                error = _raised(commit, store, 1)
            if error is None:
                break
            failures += 1
            assert isinstance(error, CheckpointError)
            assert "no room" in str(error)
            with pytest.raises(MissingFileError):
                store.read("commits/000000000001.json")
            files |= commit(store, 1, 100)
            shutil.copytree(place, left)
        for name in files:
            (left / name).unlink()
        heal(str(left))
        assert files_in(left) == files_in(place) == files, count
        shutil.rmtree(left)
        shutil.rmtree(place)
    assert failures == times


def test_a_name_that_is_taken(tmp_path):
    """A name that a writer without a lock has put is refused, and its file stays, also after a power failure."""
    store = LocalStore(tmp_path)
    with store.lock():
        commit(store, 0)
        LocalStore(tmp_path).put("commits/000000000001.json", [b"another's"])
        with pytest.raises(NameTakenError, match="000000000001"):
            commit(store, 1)
        for name in JOURNALS:
            shutil.copy(tmp_path / name, tmp_path / f"{name}.copy")
    for name in JOURNALS:
        os.rename(tmp_path / f"{name}.copy", tmp_path / name)
    heal(str(tmp_path))
    assert store.read("commits/000000000001.json").to_pybytes() == b"another's"
    assert [each.name for each in store.list("pieces/")] == ["pieces/0.arrow"]


def test_a_journal_that_cannot_be_taken_back(tmp_path, monkeypatch):
    """Then it is not known what will be there: nothing more is read or written until it is taken back, or by the next lock."""
    store, broken = LocalStore(tmp_path / "kept"), OSError(errno.EIO, os.strerror(errno.EIO))
    with monkeypatch.context() as patch, store.lock():
        files = commit(store, 0)
        patch.setattr(os, "fdatasync", _stopping(os.fdatasync, itertools.repeat(0), 0, broken))
        for work in (
            lambda: commit(store, 1),
            lambda: commit(store, 2),
            lambda: store.read("commits/000000000000.json"),
            lambda: store.delete("pieces/0.arrow"),
        ):
            with pytest.raises(CheckpointError, match="disk or the connection failed"):
                work()
        shutil.copytree(tmp_path / "kept", tmp_path / "left")
        patch.undo()
        files |= commit(store, 2)
        shutil.copytree(tmp_path / "kept", tmp_path / "killed")
        patch.setattr(os, "fdatasync", _stopping(os.fdatasync, itertools.repeat(0), 0, broken))
        with pytest.raises(CheckpointError, match="disk or the connection failed"):
            commit(store, 3)
    assert any((tmp_path / "kept" / name).exists() for name in JOURNALS)
    for place in ("kept", "killed"):
        with LocalStore(tmp_path / place).lock():
            left = files_in(tmp_path / place)
            assert files.items() <= left.items()
            assert not [name for name in left if "1." in name.removeprefix("commits/")]
    with LocalStore(tmp_path / "left").lock():
        commit(LocalStore(tmp_path / "left"), 2)


def test_a_file_that_cannot_be_synced_behind_ones_back(tmp_path, monkeypatch):
    """The next commits are refused, the journal stays, and a new lock makes the files good."""
    monkeypatch.setattr(journal, "FULL", 1)
    store, files = LocalStore(tmp_path), {}
    with store.lock():
        files |= commit(store, 0)
        with monkeypatch.context() as patch:
            broken = OSError(errno.EIO, os.strerror(errno.EIO))
            patch.setattr(os, "fsync", _stopping(os.fsync, itertools.repeat(0), 0, broken))
            while (error := _raised(lambda: files.update(commit(store, len(files))))) is None:
                assert len(files) < 15
        assert isinstance(error, CheckpointError)
        assert "failed" in str(error)
        with pytest.raises(CheckpointError, match="make a new engine"):
            commit(store, 9)
    for name in files:
        (tmp_path / name).unlink(missing_ok=True)
    with store.lock():
        last = [name for name in files if name.startswith("commits/")][-1]
        assert files_in(tmp_path)[last] == files[last]


def test_where_there_is_no_room_to_note_a_deletion(tmp_path, monkeypatch):
    """It is made all the same: it is what makes room."""
    store = LocalStore(tmp_path)
    with store.lock():
        files = commit(store, 0)
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", _stopping(os.pwritev, itertools.repeat(0), 0, full))
            store.delete("pieces/0.arrow")
        del files["pieces/0.arrow"]
        assert [*entries_of(str(tmp_path / JOURNALS[1]))] == []
        files |= commit(store, 1)
    assert files_in(tmp_path) == files


# Who has it


def test_only_who_has_the_lock_writes_a_journal(tmp_path):
    store = LocalStore(tmp_path)
    files = commit(store, 0)
    with store.lock():
        files |= commit(LocalStore(tmp_path), 1)
        assert not any((tmp_path / name).exists() for name in JOURNALS)
        files |= commit(store, 2)
        assert all((tmp_path / name).exists() for name in JOURNALS)
        assert len(store.list()) == 9
    files |= commit(store, 3)
    assert files_in(tmp_path) == files
    assert not any((tmp_path / name).exists() for name in JOURNALS)


def test_a_large_file_goes_past_the_journal(tmp_path):
    store = LocalStore(tmp_path)
    with store.lock():
        items = [("pieces/large", [bytes(2 << 20)]), ("pieces/small", [b"x"])]
        rest = store.put_ahead(items)
        assert [name for name, _ in rest] == ["pieces/small"]
        assert [each.name for each in store.list("pieces/")] == ["pieces/large"]
        store.commit(rest, "commits/000000000000.json", [b"record"])
        assert sum((tmp_path / name).stat().st_size for name in JOURNALS) < 1 << 16
    assert len(files_in(tmp_path)) == 3


def test_a_child_leaves_the_journal_alone(tmp_path):
    """Made by fork while a journal is written, it ends in good order, with all that is to be done then."""
    code = """
        import os, sys
        from contextlib import ExitStack
        from evercurrent.views.store import LocalStore
        store, stack = LocalStore(sys.argv[1]), ExitStack()
        stack.enter_context(store.lock())
        store.commit(store.put_ahead([("pieces/a", [b"x"])]), "commits/000000000000.json", [b"1"])
        if not (child := os.fork()):
            stack.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.path.exists(sys.argv[1] + "/writer.journal")
        store.commit(store.put_ahead([("pieces/b", [b"x"])]), "commits/000000000001.json", [b"2"])
        stack.close()
        assert not os.path.exists(sys.argv[1] + "/writer.journal")
    """
    assert python(code, tmp_path).wait(60) == 0
    assert len(files_in(tmp_path)) == 4


def test_files_that_were_made_ahead_are_used_and_leave_nothing(tmp_path):
    store = LocalStore(tmp_path)
    with store.lock():
        files = commit(store, 0)
        own = store._own_journal()
        own._making.result()
        ahead = {path.stat().st_ino for path in tmp_path.glob(".part-*")}
        assert len(ahead) == 3
        files |= commit(store, 1)
        assert {(tmp_path / name).stat().st_ino for name in files if "1." in name} == ahead
        own._making.result()
        for path in tmp_path.glob(".part-*"):  # Somebody has tidied up.
            path.unlink()
        with pytest.raises(CheckpointError):
            commit(store, 2)
        files |= commit(store, 2)
    assert files_in(tmp_path) == files
    assert not list(tmp_path.glob(".*"))


def test_a_commit_while_the_interpreter_ends(tmp_path):
    """No thread can be begun then; what is committed is there and settled all the same."""
    code = """
        import atexit, sys
        from contextlib import ExitStack
        from evercurrent.views.store import LocalStore
        store, stack = LocalStore(sys.argv[1]), ExitStack()
        stack.enter_context(store.lock())
        def end():
            store.commit(store.put_ahead([("pieces/b", [b"x"]), ("pieces/c", [bytes(2 << 20)])]), "commits/2", [b"2"])
            store.put_all([("pieces/d", [b"x"]), ("pieces/e", [b"x"])])
            stack.close()
        atexit.register(end)
        store.commit(store.put_ahead([("pieces/a", [b"x"])]), "commits/1", [b"1"])
    """
    process = python(code, tmp_path, stderr=subprocess.PIPE)
    assert process.communicate(timeout=900)[1] == b""
    names = ["pieces/a", "pieces/b", "pieces/c", "pieces/d", "pieces/e"]
    assert sorted(files_in(tmp_path)) == ["commits/1", "commits/2", *names]
    assert not any((tmp_path / name).exists() for name in JOURNALS)


@pytest.mark.parametrize("step", ["pwritev", "fdatasync", "link"])
def test_killed_in_the_middle_of_a_commit(tmp_path, step):
    """The commits before are there, and of this one everything or no record."""
    code = """
        import os, sys, time
        from evercurrent.views.store import LocalStore
        store = LocalStore(sys.argv[1])
        def commit(number):
            items = [(f"pieces/{number}", [b"x" * 100_000]), (f"deltas/v/{number}", [b"y"])]
            store.commit(store.put_ahead(items), f"commits/{number:012}.json", [b"record"])
        def wait(*_):
            print("now", flush=True)
            time.sleep(600)
        with store.lock():
            commit(0)
            setattr(os, sys.argv[2], wait)
            commit(1)
    """
    process = python(code, tmp_path, step, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"now\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    store = LocalStore(tmp_path)
    with store.lock():
        assert {"pieces/0", "deltas/v/0", "commits/000000000000.json"} <= set(files_in(tmp_path))
        if "commits/000000000001.json" in files_in(tmp_path):
            assert store.read("pieces/1").size == 100_000
            assert store.read("deltas/v/1").size == 1
        else:
            assert step == "pwritev"


def python(code, *args, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return subprocess.Popen(command, env=environment, **options)
