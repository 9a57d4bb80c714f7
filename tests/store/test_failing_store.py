"""The store that fails on purpose does what tests of others rely on."""

import itertools

import pytest

from evercurrent.core.data.errors import CheckpointError, MissingFileError, NameTakenError
from evercurrent.views.store import LocalStore, store_at
from failing_store import FailingStore, InjectedError, Killed

STEPS = [
    ("put", lambda store: store.put("pieces/a", [b"aaaa"])),
    ("put", lambda store: store.put_all([("pieces/b", [b"bbbb"]), ("pieces/c", [b"cccc"])])),
    ("read", lambda store: store.read("pieces/a")),
    ("list", lambda store: store.list("pieces/")),
    ("delete", lambda store: store.delete_all(["pieces/a", "pieces/b"])),
    ("lock", lambda store: store.lock().__enter__()),
]


def run(store):
    for _, step in STEPS:
        step(store)


def names(store):
    return [each.name for each in store.list("")]


def hidden(folder):
    return list(folder.rglob(".part-*"))


def test_never(tmp_path):
    store = FailingStore(LocalStore(tmp_path))
    run(store)
    assert not store.has_failed
    assert store.url == str(tmp_path)
    assert [operation for operation, _ in store.done] == ["put"] * 3 + ["read", "list"] + ["delete"] * 2 + [
        "lock"
    ]


@pytest.mark.parametrize("when", ["before", "after", "torn"])
@pytest.mark.parametrize("error", [InjectedError, Killed])
def test_for_every_n(tmp_path, when, error):
    """Each of the eight operations fails once, and what is there is what the word means."""
    left = []
    for n in itertools.count():
        folder = tmp_path / str(n)
        store = FailingStore(LocalStore(folder), fail_at=n, when=when, error=error)
        try:
            run(store)
        except error:
            assert store.has_failed
        if not store.has_failed:
            break
        assert len(store.done) == n + 1
        left.append("".join(name[-1] for name in names(LocalStore(folder))))
        assert len(hidden(folder)) == (when == "torn" and n < 3)
    assert left == (
        ["a", "ab", "abc", "abc", "abc", "bc", "c", "c"]
        if when == "after"
        else ["", "a", "ab", "abc", "abc", "abc", "bc", "c"]
    )


def test_an_error_passes_and_death_does_not(tmp_path):
    store = FailingStore(LocalStore(tmp_path / "a"), fail_at=0)
    with pytest.raises(CheckpointError, match=r"pieces/a.*on purpose"):
        store.put("pieces/a", [b"x"])
    store.put("pieces/a", [b"x"])
    assert names(store) == ["pieces/a"]
    for options in ({"error": Killed}, {"lasting": True}):
        store = FailingStore(LocalStore(tmp_path / str(options)), fail_at=0, **options)
        for _, step in STEPS:
            with pytest.raises((Killed, InjectedError)):
                step(store)
        assert names(store.store) == []


def test_half_of_a_file_has_no_name(tmp_path):
    store = FailingStore(LocalStore(tmp_path), fail_at=0, when="torn")
    with pytest.raises(InjectedError):
        store.put("commits/1", [b"ab", b"cd"])
    assert [path.read_bytes() for path in hidden(tmp_path)] == [b"ab"]
    with pytest.raises(MissingFileError):
        store.read("commits/1")


def test_the_dead_hold_no_lock(tmp_path):
    store = FailingStore(LocalStore(tmp_path), fail_at=1, error=Killed)
    with pytest.raises(Killed), store.lock():
        store.put("a", [b""])
    with LocalStore(tmp_path).lock():
        pass
    store = FailingStore(LocalStore(tmp_path), fail_at=0, when="after")
    with pytest.raises(InjectedError), store.lock():
        pass
    with LocalStore(tmp_path).lock():
        pass


def test_only_some_are_counted(tmp_path):
    store = FailingStore(store_at(tmp_path), fail_at=1, only=("put",))
    store.list("")
    store.put("a", [b""])
    store.read("a")
    with pytest.raises(InjectedError):
        store.put("b", [b""])
    assert store.done == [("put", "a"), ("put", "b")]


def test_a_name_that_is_taken_is_refused(tmp_path):
    store = FailingStore(store_at(tmp_path))
    store.put("a", [b"1"])
    with pytest.raises(NameTakenError):
        store.put_all([("a", [b"2"]), ("b", [b"2"])])
    assert names(store) == ["a", "b"]
