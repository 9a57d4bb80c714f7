"""What every store does, whatever is behind it."""

import pickle
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

from evercurrent.core.data.errors import CheckpointError, MissingFileError, NameTakenError
from evercurrent.views.store import store_at
from evercurrent.views.store.opening import OPENERS, opens
from evercurrent.views.store.protocol import Store

# The store without exclusive writes declares it; that it does is tested with the remote ones.
pytestmark = pytest.mark.filterwarnings("ignore::evercurrent.core.data.errors.CheckpointWarning")


def content(store, name):
    return store.read(name).to_pybytes()


def names(store, prefix=""):
    return [each.name for each in store.list(prefix)]


def test_a_store_has_every_member_of_the_protocol(store):
    """Some are read seldom, as when files are swept, where their lack would be found after many commits."""
    members = [name for name in vars(Store) if not name.startswith("_")]
    assert "excludes_writers" in members
    assert [name for name in members if not hasattr(store, name)] == []


def race(count, work):
    """Do ``work(i)`` in so many threads, all at once, and return what each of them returned or raised."""
    results = [None] * count
    start = threading.Barrier(count)

    def run(i):
        start.wait()
        try:
            results[i] = work(i)
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_what_is_put_is_read(store):
    """One file of several buffers of every sort that there is."""
    data = [
        b"bytes ",
        bytearray(b"array "),
        memoryview(b"a view ")[2:],
        pa.py_buffer(b"arrow "),
        memoryview(np.arange(3, dtype=np.uint16)),
        memoryview(np.zeros((0, 2))),
        b"",
    ]
    store.put("pieces/a.arrow", data)
    assert content(store, "pieces/a.arrow") == b"bytes array view arrow \0\0\1\0\2\0"


@pytest.mark.parametrize("name", ["checkpoint.json", "commits/000000000001.json", "pieces/a.arrow"])
@pytest.mark.parametrize("data", [[], [b""]])
def test_an_empty_file(store, name, data):
    store.put(name, data)
    assert store.read(name).size == 0
    assert [(each.name, each.size) for each in store.list("")] == [(name, 0)]


@pytest.mark.parametrize("name", ["checkpoint.json", "commits/000000000001.json", "deltas/v/1.arrow"])
def test_a_name_is_taken_once(store, name):
    store.put(name, [b"first"])
    with pytest.raises(NameTakenError, match=name):
        store.put(name, [b"second"])
    with pytest.raises(NameTakenError, match=name):
        store.put(name, [b"first"])
    assert content(store, name) == b"first"
    assert names(store) == [name]


def test_a_deleted_name_is_free(store):
    store.put("pieces/a", [b"first"])
    assert content(store, "pieces/a") == b"first"
    store.delete("pieces/a")
    store.put("pieces/a", [b"second"])
    assert content(store, "pieces/a") == b"second"


def test_one_of_many_wins(store):
    """Of eight threads that put one name one succeeds, seven are refused, and the file is that of the one."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # So that threads meet where Python alone would keep them apart.
    try:
        winners = [_race_for_a_name(store, f"commits/{turn:012}.json") for turn in range(5)]
    finally:
        sys.setswitchinterval(interval)
    assert [len(each) for each in winners] == [1] * 5
    assert names(store) == [f"commits/{turn:012}.json" for turn in range(5)]


def _race_for_a_name(store, name):
    """Let eight threads put one name and check the outcome; return the number of the thread that succeeded."""
    results = race(8, lambda i: store.put(name, [bytes([i]) * 5000]))
    winners = [i for i, result in enumerate(results) if result is None]
    assert len(winners) == 1, results
    assert all(isinstance(result, NameTakenError) for result in results if result is not None), results
    assert content(store, name) == bytes(winners) * 5000
    return winners


def test_threads_put_and_read(store):
    def work(i):
        store.put(f"pieces/{i}", [bytes([i]) * 10_000])
        return [content(store, f"pieces/{i}") == bytes([i]) * 10_000 for _ in range(5)]

    assert race(8, work) == [[True] * 5] * 8


def test_missing(store):
    for name in ("checkpoint.json", "commits/000000000001.json", "pieces/a"):
        with pytest.raises(MissingFileError, match=name) as caught:
            store.read(name)
        assert store.url in str(caught.value)
    store.put("pieces/a", [b"x"])
    with pytest.raises(MissingFileError):
        store.read("pieces/b")
    with pytest.raises(MissingFileError):
        store.read("pieces/a/b")


def test_list(store):
    """Sorted by name, by the beginning of names and not by folders, nothing where nothing is."""
    assert store.list("") == []
    assert store.list("commits/") == []
    before = time.time()
    for name in ("pieces/b", "pieces/a", "commits/000000000010.json", "commits/000000000009.json"):
        store.put(name, [name.encode()])
    store.put("deltas/v/w/1", [b""])
    store.put("top.json", [b""])
    assert names(store) == [
        "commits/000000000009.json",
        "commits/000000000010.json",
        "deltas/v/w/1",
        "pieces/a",
        "pieces/b",
        "top.json",
    ]
    assert names(store, "commits/") == ["commits/000000000009.json", "commits/000000000010.json"]
    assert names(store, "commits/00000000001") == ["commits/000000000010.json"]
    assert names(store, "commits") == names(store, "commits/")
    assert names(store, "deltas/") == names(store, "deltas/v/") == names(store, "del") == ["deltas/v/w/1"]
    assert names(store, "t") == ["top.json"]
    assert names(store, "commits/000000000010.json/") == []
    assert names(store, "other/") == []
    listed = {each.name: each for each in store.list("pieces/")}
    assert listed["pieces/a"].size == len("pieces/a")
    assert all(before - 2 < each.modified < time.time() + 2 for each in listed.values())


def test_names_with_characters_of_patterns(store):
    """A ``[``, ``*`` or ``?`` means itself, in deletes too."""
    store.put_all([(name, [b""]) for name in ("p/a*", "p/ab", "p/[ab]", "p/a", "p/ä %20#é", "p/?")])
    store.delete_all(["p/a*", "p/[ab]", "p/?"])
    assert names(store) == ["p/a", "p/ab", "p/ä %20#é"]
    assert content(store, "p/ä %20#é") == b""


def test_delete(store):
    store.delete("pieces/never")
    store.delete_all([])
    store.delete_all(["pieces/never", "commits/never"])
    store.put_all([(f"pieces/{i}", [b"x"]) for i in range(5)])
    assert content(store, "pieces/1") == b"x"
    store.delete("pieces/1")
    store.delete("pieces/1")
    store.delete_all(["pieces/2", "pieces/1", "pieces/3", "other/1"])
    assert names(store) == ["pieces/0", "pieces/4"]
    for name in ("pieces/1", "pieces/3"):
        with pytest.raises(MissingFileError):
            store.read(name)


def test_what_is_read_outlives_its_file(store):
    data = np.random.default_rng(1).bytes(100_000)
    store.put("pieces/a", [data])
    buffer = store.read("pieces/a")
    store.delete("pieces/a")
    assert buffer.to_pybytes() == data


def test_many_small_files(store):
    items = [(f"pieces/{i:03}", [b"%d" % i]) for i in range(300)]
    store.put_all(items)
    assert [(each.name, each.size) for each in store.list("pieces/")] == [
        (name, len(data)) for name, (data,) in items
    ]
    assert all(content(store, name) == data for name, (data,) in items[::30])
    store.delete_all([name for name, _ in items[:-1]])
    assert names(store) == ["pieces/299"]


def test_put_all_writes_what_is_not_taken(store):
    store.put("pieces/b", [b"old"])
    with pytest.raises(NameTakenError, match="pieces/b") as caught:
        store.put_all([(f"pieces/{name}", [b"new"]) for name in "abc"])
    assert "pieces/a" not in str(caught.value)
    assert [content(store, f"pieces/{name}") for name in "abc"] == [b"new", b"old", b"new"]


def test_put_all_of_one_name_twice(store):
    with pytest.raises(NameTakenError):
        store.put_all([("pieces/a", [b"1"]), ("pieces/a", [b"2"])])
    assert content(store, "pieces/a") in (b"1", b"2")
    store.put_all([])


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "../a",
        "a/../b",
        ".",
        "a/./b",
        ".part-1",
        "a/.b",
        "a\\b",
        "a\0b",
        "writer.lock",
    ],
)
def test_names_that_lead_elsewhere(store, name):
    for call in (lambda: store.put(name, [b"x"]), lambda: store.read(name), lambda: store.delete(name)):
        with pytest.raises(CheckpointError, match="is not a file name"):
            call()
    assert store.list("") == []


@pytest.mark.parametrize("prefix", ["/", "../", "a//", "a/../"])
def test_prefixes_that_lead_elsewhere(store, prefix):
    with pytest.raises(CheckpointError, match="is not a file name"):
        store.list(prefix)


def test_one_writer(store):
    """A second lock is refused with the name of who has the first, and is given when that is over."""
    with store.lock():
        with pytest.raises(CheckpointError, match="this process") as caught, store.lock():
            pass
        assert store.url in str(caught.value)
        with pytest.raises(CheckpointError), pickle.loads(pickle.dumps(store)).lock():
            pass
        assert store.list("") == []
    with store.lock():
        store.put("pieces/a", [b""])
    assert names(store) == ["pieces/a"]


def test_a_lock_that_fails_inside_is_given_back(store):
    with pytest.raises(RuntimeError), store.lock():
        raise RuntimeError
    with store.lock():
        pass


def test_pickled(store):
    """As it travels to other processes."""
    store.put("pieces/a", [b"x"])
    there = pickle.loads(pickle.dumps(store))
    assert there.url == store.url
    assert content(there, "pieces/a") == b"x"
    there.put("pieces/b", [b"y"])
    assert names(store) == ["pieces/a", "pieces/b"]


def test_url_leads_back(store):
    if "s3://" not in store.url:  # Its endpoint is an option here.
        store.put("pieces/a", [b"x"])
        assert content(store_at(store.url), "pieces/a") == b"x"
    assert store_at(store) is store


def test_a_store_opens_the_urls_of_its_scheme(tmp_path, monkeypatch):
    """No other file names it: what is in the table goes before fsspec, and other schemes stay what they were."""
    opened = []
    monkeypatch.setitem(OPENERS, "elsewhere", None)  # Taken out again at the end.
    opens("elsewhere")(lambda url: opened.append(url) or store_at(tmp_path))
    assert store_at("elsewhere://host/a").url == str(tmp_path)
    assert opened == ["elsewhere://host/a"]
    assert store_at("memory://a").url.startswith("memory://")
