"""The log of commits: one small record each, which alone makes a state of the files that it names.

A record covers the epochs after the commit before it, up to its own, and is named by the *first* of them: where there
is a commit for each epoch, that is its epoch. So all who go on from a commit want the same name, whatever epoch they
have come to, and one of them gets it.

Records from a whole one to before the next are put together into one file when they are old (``record_packs``).

A record is whole, or the difference to the one before it. What is there was written whole: a record that cannot be
read, or that is missing between others, is damage, and an error by name. Differences before the first whole record are
what an interrupted sweep has left; they are not retained.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from evercurrent.core.data.errors import CheckpointError, EpochGoneError, MissingFileError, NameTakenError

from ..store import Item, Store
from .commits import Commit, DeltaRef, Passed, delta_refs, epochs_from_json
from .differences import Rebuilt, difference
from .marker import is_checkpoint, put_marker
from .pending import lost_oldest, require_acknowledged
from .record_files import decoded, encoded_record
from .record_packs import closed_segments
from .records import Records, record_name
from .sweeping import Swept, sweep_files


class CommitLog:
    """The commits of a checkpoint, for one writer or any number of readers.

    A commit costs a put and a read of the record before it; reading one, at most ``full_every`` small files. What was seen of the log is remembered:
    some hundred bytes for each retained commit.
    """

    def __init__(self, store: Store, *, full_every: int = 64) -> None:
        assert full_every > 0, "there must be a whole record now and then"
        self.store = store
        self._full_every = full_every
        self._records = Records(store)
        self._is_read = False
        self._last: Commit | None = None
        self._differences = 0

    @property
    def last(self) -> Commit | None:
        """The last commit, as of the first look and of ``refresh`` since. None: there is none yet.

        Raises:
            CheckpointError: the store is used for something else, or by a newer version.
            CorruptFileError, MissingFileError: damage, by name.
        """
        if not self._is_read:
            self._look()
        return self._last

    def refresh(self) -> Commit | None:
        """The last commit that there is now. Cost: the records that others have written since."""
        last = self.last
        if last is None:
            self._look()
            return self._last
        rebuilt, epoch = None, last.epoch
        while True:
            try:
                body = self._records.read(epoch + 1, is_next=True)
            except MissingFileError:
                break
            if body["whole"]:
                rebuilt, self._differences = Rebuilt(Commit.from_json(body)), 0
            else:
                rebuilt = rebuilt or Rebuilt(last)
                self._records.go_on(rebuilt, epoch + 1, body)
                self._differences += 1
            self._records.add(epoch + 1, body)
            epoch = body["epoch"]
        if rebuilt is not None:
            self._last = rebuilt.commit()
        elif not self._is_there(self._records.firsts[-1]):
            self._look()  # Others are so far ahead that what we know is swept.
        return self._last

    @property
    def refuses_earlier(self) -> bool:
        """Whether versions that do not know the files that this one writes beside the records refuse the last record.

        Cost: reading it.
        """
        return self.last is not None and self._records.is_latest_form(self._records.firsts[-1])

    def append(self, commit: Commit, items: Sequence[Item] = (), *, whole: bool = False) -> None:
        """Make a commit, the next after ``last``. It is done when this returns. ``whole``: not as a difference.

        ``items`` are files that it names and that are to be written with it: what ``Store.put_ahead`` has returned.

        Raises:
            CheckpointError: another writer has gone on from ``last``, the epoch is not after it, or the store fails.
                The commit is then not there; or, where the store can neither write nor read, says that this is not known.
        """
        last = self.last
        first = 0 if last is None else last.epoch + 1
        if commit.epoch < first:
            raise CheckpointError(
                f"{self.store.url}: epoch {commit.epoch} is committed already, the last is epoch {first - 1}"
            )
        if last is None:
            put_marker(self.store)
        differences = self._differences + 1
        whole = whole or last is None or differences >= self._full_every
        body = commit.as_json() if last is None or whole else difference(last, commit)
        before = self._records.firsts[-1] if self._records.firsts else None
        # Who is to write items with the commit has the lock: nobody else has swept.
        if before is not None and not items and not self._is_there(before):
            raise CheckpointError(
                f"{self.store.url}: others have committed so much since epoch {first - 1} that its record is swept; what "
                "was to be committed now is not; open the engine anew to go on from there"
            )
        body = {"before": before, "whole": whole, **body}
        self._put(first, encoded_record(body), commit, items)
        self.store.acknowledge(first, commit.epoch)
        self._records.add(first, body)
        self._last, self._differences = commit, 0 if whole else differences

    def epochs(self) -> list[int]:
        """The epochs of all retained commits, ascending."""
        last = self.last
        if last is None:
            return []
        return [*(first - 1 for first in self._records.retained()[1:]), last.epoch]

    def at(self, epoch: int) -> Commit:
        """The commit of an epoch. Cost: the records back to the last whole one.

        Raises:
            EpochGoneError: there is no commit of this epoch, or none any more: says which there are.
        """
        last = self.last
        if last is not None and last.epoch == epoch:
            return last
        epochs = self.epochs()
        at = bisect_right(epochs, epoch) - 1
        if at < 0 or epochs[at] != epoch:
            cut = self._cut_short() if at < 0 else ""
            raise EpochGoneError(f"{self.store.url}: {_what_there_is(epoch, epochs, at)}{cut}")
        first = self._records.retained()[at]
        commit, _ = self._records.commit(first)
        if commit.epoch != epoch:
            raise MissingFileError(
                f"{self.store.url}: {record_name(commit.epoch + 1)} is missing, and later ones are there; restore it "
                "from a copy of the checkpoint"
            )
        return commit

    def deltas(self, view: str, since: int) -> list[DeltaRef]:
        """Where the deltas of a view of all epochs after this one are, in order. Cost: each record is read once.

        Raises:
            EpochGoneError: the next ones are no longer retained.
        """
        if self.last is None:
            return []
        firsts = self._records.retained()
        if since < firsts[0] - 1:
            raise EpochGoneError(
                f"{self.store.url}: the deltas of {view!r} after epoch {since} are no longer retained, those after "
                f"{firsts[0] - 1} are; start from the contents of the view, or keep more commits with Checkpoint(keep=...)"
                f"{self._cut_short()}"
            )
        covering = firsts[max(0, bisect_right(firsts, since + 1) - 1) :]
        said = [known.deltas.get(view, ()) for known in self._records.known_in_order(covering)]
        return [ref for parts in said for ref in delta_refs(parts) if ref.epoch > since]

    def passed(self) -> Iterator[Passed]:
        """The epochs of all retained commits, each with its instant and watermarks, the latest first.

        Cost: a record for each commit that is come to.
        """
        if self.last is not None:
            for first in reversed(self._records.retained()):
                yield from reversed(epochs_from_json(self._records.read(first)["epochs"]))

    def sweep(self, keep: int, grace: float) -> Swept:
        """Drop all but the last ``keep`` commits, and delete what no retained one names.

        Old records are put together into few files. What is kept begins with a whole record, so it may be up to
        ``full_every`` commits more. Files younger than ``grace`` seconds stay: somebody may be writing or about to read
        them. Cost: the number of files.
        """
        if self.last is None:
            return sweep_files(self.store, set(), grace, 0)
        records = self._records
        records.look()
        retained = records.retained()
        latest = max(0, len(retained) - max(keep, 1))
        start = next(at for at in range(latest, -1, -1) if records.known(retained[at]).whole)
        kept = retained[start:]
        named = set().union(*(known.files for known in records.known_in_order(kept)))
        dropped = [first for first in records.firsts if first < kept[0]]
        if dropped:
            self.store.retain_from(kept[0])
        self.store.delete_all([record_name(first) for first in records.leftovers])
        records.leftovers.clear()
        self._drop(dropped)
        self._pack(kept)
        return sweep_files(self.store, named, grace, len(retained) - len(kept))

    def _drop(self, dropped: Sequence[int]) -> None:
        """Delete these records, the oldest."""
        records = self._records
        files = {first: records.file_of(first) for first in dropped}
        wholes = dict.fromkeys(files[first] for first in dropped if records.known(first).whole)
        for (
            file
        ) in wholes:  # One by one: whatever comes between, what begins with a whole record can be read.
            self.store.delete(file)
        others = dict.fromkeys(file for file in files.values() if file not in wholes)
        self.store.delete_all(list(others))
        records.forget(dropped)

    def _pack(self, kept: Sequence[int]) -> None:
        """Put records into one file from a whole one to before the next. Those after the last whole one stay apart."""
        records = self._records
        wholes = [first for first in kept if records.known(first).whole]
        for segment in closed_segments(kept, wholes):
            if all(records.file_of(first) == record_name(first) for first in segment):
                records.pack(segment)

    def _cut_short(self) -> str:
        """What to add where older records are there and cannot be read, as what they go on from is not."""
        if not self._records.firsts:
            return ""
        first = self._records.firsts[0]
        if lost := lost_oldest(self.store.acknowledged(), first):
            return f"; {lost}: restore them from a copy of the checkpoint"
        before = self._records.known(first).before
        if self._records.known(first).whole or before is None:
            return ""
        return f"; {record_name(before)}, from which {record_name(first)} goes on, is missing: lost, or swept in part"

    def _look(self) -> None:
        self._last, self._differences = None, 0
        said = self.store.acknowledged()  # Before looking: there may be more since.
        if is_checkpoint(self.store):
            self._records.look()
            if self._records.firsts:
                self._last, self._differences = self._records.commit(self._records.firsts[-1])
        require_acknowledged(self.store, said, None if self._last is None else self._last.epoch)
        self._is_read = True

    def _put(self, first: int, data: bytes, commit: Commit, items: Sequence[Item]) -> None:
        name = record_name(first)
        failure: CheckpointError | None
        try:
            if items:
                self.store.commit(items, name, [data])
            else:
                self.store.put(name, [data])
            return
        except NameTakenError:
            failure = None  # Which may be our own record: a store that lost the answer has asked again.
        except CheckpointError as error:
            failure = error
        try:
            there = self.store.read(name).to_pybytes()
        except MissingFileError:
            raise failure or CheckpointError(f"{self.store.url}: {name} was there and is gone") from failure
        except CheckpointError as error:
            raise CheckpointError(
                f"{self.store.url}: whether epoch {commit.epoch} is committed is not known: {failure or error}; open "
                "the engine anew when the store can be read again"
            ) from error
        if there != data:
            raise self._taken(name, there, commit)

    def _taken(self, name: str, there: bytes, commit: Commit) -> CheckpointError:
        body = decoded(f"{self.store.url}: {name}", there)
        who = "an earlier attempt of this writer" if body["writer"] == commit.writer else "another writer"
        return CheckpointError(
            f"{who} has committed epoch {body['epoch']} of {self.store.url}; what was to be committed now is not; open "
            "the engine anew to go on from there"
        )

    def _is_there(self, first: int) -> bool:
        try:
            self.store.read(record_name(first))
        except MissingFileError:
            return False
        return True


def _what_there_is(epoch: int, epochs: list[int], before: int) -> str:
    """The answer to who asks for a commit that is not there."""
    if not epochs:
        return f"there is no commit of epoch {epoch}: none has been made yet"
    if before < 0:
        gone = f"the commit of epoch {epoch} is no longer retained, the oldest is epoch {epochs[0]}"
        return f"{gone}; keep more commits with Checkpoint(keep=...)"
    if before == len(epochs) - 1:
        return f"there is no commit of epoch {epoch} yet, the last is epoch {epochs[-1]}"
    return f"there is no commit of epoch {epoch}, but of {epochs[before]} and {epochs[before + 1]}"
