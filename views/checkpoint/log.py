"""The log of commits has one small record each; files count as states only once a record names them.

A record covers the epochs after the commit before it, up to its own, and is named by the *first* of them: where there
is a commit for each epoch, that is its epoch. So all writers that continue from a commit try to create the same name,
whatever epoch they have reached, and one of them succeeds.

Old records, each from a whole one to before the next, are packed into one file (``record_packs``).

A record is whole, or the difference from the one before it, whose checksum it has. Records are written atomically: one that
cannot be read, or that is missing between others, is damage, and an error that names it. Differences before the first whole record are
remains of an interrupted sweep; they are not retained.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from evercurrent.core.data.errors import (
    CheckpointError,
    CorruptFileError,
    EpochGoneError,
    MissingFileError,
    NameTakenError,
)

from ..store import Item, Store
from .commits import Commit, DeltaRef, Passed, delta_refs, epochs_from_json
from .differences import Rebuilt, difference
from .marker import is_checkpoint, put_marker
from .pending import lost_oldest, require_acknowledged
from .record_files import checksum_of, decoded, encoded_record, is_intact
from .record_packs import closed_segments
from .records import BEFORE_CRC, RecordFacts, Records, record_name
from .sweeping import Swept, sweep_files


class CommitLog:
    """The commits of a checkpoint, for one writer or any number of readers.

    A commit costs a put and a read of the record before it; reading one, at most ``full_every`` small files. Some hundred
    bytes of each retained commit are kept in memory.
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
        """Return the last commit, as of the first access or the last ``refresh``; None if there is none yet.

        Raises:
            CheckpointError: the store is used for something else, or by a newer version.
            CorruptFileError, MissingFileError: damage, by name.
        """
        if not self._is_read:
            self._look()
        return self._last

    @property
    def last_crc(self) -> str | None:
        """Return the checksum of the record of the last commit, which identifies it; None if there is none."""
        return None if self.last is None else self._records.facts(self._records.firsts[-1]).crc

    def refresh(self) -> Commit | None:
        """Return the last commit as of now. Cost: the records that others have written since."""
        last = self.last
        if last is None:
            self._look()
            return self._last
        rebuilt, epoch, differences = None, last.epoch, self._differences
        before = self._records.facts(self._records.firsts[-1])
        records: list[tuple[int, RecordFacts]] = []  # Noted once all are read: a store may fail in between.
        while True:
            try:
                body = self._records.read(epoch + 1, is_next=True)
            except MissingFileError:
                break
            self._require_next(before, epoch + 1)
            if body["whole"]:
                rebuilt, differences = Rebuilt(Commit.from_json(body)), 0
            else:
                rebuilt = rebuilt or Rebuilt(last)
                self._records.go_on(rebuilt, epoch + 1, body)
                differences += 1
            before = self._records.facts(epoch + 1)
            records.append((epoch + 1, before))
            epoch = before.epoch
        if rebuilt is not None:
            self._last, self._differences = rebuilt.commit(), differences
            for first, facts in records:
                self._records.add(first, facts)
        is_swept = rebuilt is None and not self._is_there(self._records.firsts[-1])
        if is_swept or self._is_overtaken(epoch):
            self._look_again(last)
        return self._last

    @property
    def refuses_earlier(self) -> bool:
        """Return whether earlier versions, which do not read the files beside the records, refuse the last record.

        Cost: reading it.
        """
        return self.last is not None and self._records.is_latest_form(self._records.firsts[-1])

    def append(self, commit: Commit, items: Sequence[Item] = (), *, whole: bool = False) -> None:
        """Write the commit after ``last``; it is committed when this returns. ``whole``: not as a difference.

        ``items`` are files that it names and that are to be written with it, as ``Store.put_ahead`` returned them.

        Raises:
            CheckpointError: another writer has continued from ``last``, the epoch is not after it, or the store fails.
                The commit is then not there; where the store can neither write nor read, the message states that this is
                not known.
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
        link = {} if before is None else {BEFORE_CRC: self._crc_on_disk(before)}
        body = {"before": before, **link, "whole": whole, **body}
        record = encoded_record(body)
        self._put(first, record, commit, items)
        self.store.acknowledge(first, commit.epoch)
        self._records.add(first, RecordFacts.of(body, checksum_of(record)))
        self._last, self._differences = commit, 0 if whole else differences

    def epochs(self) -> list[int]:
        """Return the epochs of all retained commits, ascending."""
        last = self.last
        if last is None:
            return []
        return [*(first - 1 for first in self._records.retained()[1:]), last.epoch]

    def at(self, epoch: int) -> Commit:
        """Return the commit of an epoch. Cost: the records back to the last whole one.

        Raises:
            EpochGoneError: this epoch has no commit, or its commit is no longer retained; names the epochs that have one.
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
        """Return the places of a view's deltas after this epoch, in order. Cost: each record is read once.

        Raises:
            EpochGoneError: the next ones are no longer retained.
        """
        if self.last is None:
            return []
        firsts = self._records.retained()
        if since < firsts[0] - 1:
            raise EpochGoneError(
                f"{self.store.url}: the deltas of {view!r} after epoch {since} are no longer retained, those after "
                f"{firsts[0] - 1} are{self._cut_short()}"
            )
        at = max(0, bisect_right(firsts, since + 1) - 1)
        all_facts = self._records.facts_in_order(firsts[at:])
        if at:
            self._require_received(firsts[at - 1], firsts[at])
        refs_by_record = [facts.deltas.get(view, ()) for facts in all_facts]
        return [ref for parts in refs_by_record for ref in delta_refs(parts) if ref.epoch > since]

    def _require_received(self, before: int, first: int) -> None:
        """Check that a record goes on from the one with whose deltas a reader has ended, if that is still there and whole.

        Raises:
            CorruptFileError: the records are of two histories.
        """
        try:
            facts = self._records.facts(before)
        except (MissingFileError, CorruptFileError):
            return  # No delta of it is read.
        self._records.require_one_history(facts, first)

    def past_epochs(self) -> Iterator[Passed]:
        """Yield the epochs of all retained commits, each with its instant and watermarks, the latest first.

        Cost: a record for each commit that is reached.
        """
        if self.last is not None:
            for first in reversed(self._records.retained()):
                yield from reversed(epochs_from_json(self._records.read(first)["epochs"]))

    def sweep(self, keep: int, grace: float) -> Swept:
        """Drop all but the last ``keep`` commits, and delete files that no retained one names.

        Old records are packed into few files. The retained ones begin with a whole record, so they may be up to
        ``full_every`` commits more. Files younger than ``grace`` seconds stay, as another process may be writing or about
        to read them; where the store's lock does not exclude other writers, that is ten minutes at least. Cost: the number of files.
        """
        if self.last is None:
            return sweep_files(self.store, set(), grace, 0)
        records = self._records
        records.look()
        retained = records.retained()
        latest = max(0, len(retained) - max(keep, 1))
        start = next(at for at in range(latest, -1, -1) if records.facts(retained[at]).whole)
        remaining = retained[start:]
        named = set().union(*(facts.files for facts in records.facts_in_order(remaining)))
        dropped = [first for first in records.firsts if first < remaining[0]]
        if dropped:
            self.store.retain_from(remaining[0])
        self.store.delete_all([record_name(first) for first in records.leftovers])
        records.leftovers.clear()
        self._drop(dropped)
        self._pack(remaining)
        return sweep_files(self.store, named, grace, len(retained) - len(remaining))

    def _drop(self, dropped: Sequence[int]) -> None:
        """Delete these records, the oldest."""
        records = self._records
        files = {first: records.file_of(first) for first in dropped}
        wholes = dict.fromkeys(files[first] for first in dropped if records.facts(first).whole)
        for file in (
            wholes
        ):  # One by one: wherever it is interrupted, the rest begins with a whole record and can be read.
            self.store.delete(file)
        others = dict.fromkeys(file for file in files.values() if file not in wholes)
        self.store.delete_all(list(others))
        records.forget(dropped)

    def _pack(self, firsts: Sequence[int]) -> None:
        """Pack records, each from a whole one to before the next. Those after the last whole one stay apart."""
        records = self._records
        wholes = [first for first in firsts if records.facts(first).whole]
        for segment in closed_segments(firsts, wholes):
            if all(records.file_of(first) == record_name(first) for first in segment):
                records.pack(segment)

    def _cut_short(self) -> str:
        """Return an addition to a message if older records cannot be read because a record that they continue is missing."""
        if not self._records.firsts:
            return ""
        first = self._records.firsts[0]
        if lost := lost_oldest(self.store.acknowledged(), first):
            return f"; {lost}: restore them from a copy of the checkpoint"
        before = self._records.facts(first).before
        if self._records.facts(first).whole or before is None:
            return ""
        return f"; {record_name(before)}, from which {record_name(first)} goes on, is missing: lost, or swept in part"

    def _look(self) -> None:
        self._last, self._differences = None, 0
        acknowledged = self.store.acknowledged()  # Before looking: there may be more since.
        if is_checkpoint(self.store):
            self._records.look()
            if self._records.firsts:
                self._last, self._differences = self._records.commit(self._records.firsts[-1])
        require_acknowledged(self.store, acknowledged, None if self._last is None else self._last.epoch)
        self._is_read = True

    def _look_again(self, last: Commit) -> None:
        """Look anew, as others are so far ahead that the records known here are swept.

        Raises:
            CheckpointError: there is no commit at all. This log stays as it is: it is not that of a new checkpoint, which its
                next commit would begin without the files that its states need.
        """
        log = CommitLog(self.store, full_every=self._full_every)
        if log.last is None:
            raise CheckpointError(
                f"{self.store.url}: all commits up to epoch {last.epoch} are gone: the checkpoint was deleted or moved while it was "
                "in use; put it back, or make a new engine, which begins a new one"
            )
        self._records, self._last, self._differences = log._records, log._last, log._differences

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
            failure = None  # It may be our own record, if the store lost the response and tried again.
        except CheckpointError as error:
            failure = error
        try:
            there = self.store.read(name).to_pybytes()
        except MissingFileError:
            raise failure or CheckpointError(
                f"{self.store.url}: {name} was there and has disappeared"
            ) from failure
        except CheckpointError as error:
            raise CheckpointError(
                f"{self.store.url}: it is unknown whether epoch {commit.epoch} is committed: {failure or error}; make "
                "a new engine when the store can be read again"
            ) from error
        if there != data:
            raise self._taken(name, there, commit)

    def _taken(self, name: str, there: bytes, commit: Commit) -> CheckpointError:
        body = decoded(f"{self.store.url}: {name}", there)
        who = "an earlier attempt of this writer" if body["writer"] == commit.writer else "another writer"
        return CheckpointError(
            f"{who} has committed epoch {body['epoch']} of {self.store.url}; what was to be committed now is not; make "
            "a new engine to go on from there"
        )

    def _crc_on_disk(self, first: int) -> str:
        """Return the checksum of the last record, which must be there and be the one that was last read or written.

        Raises:
            CheckpointError: it is not; nothing may be committed after it.
        """
        last, name = self._records.facts(first), record_name(first)
        try:
            data = self.store.read(name).to_pybytes()
        except MissingFileError:
            raise CheckpointError(
                f"{self.store.url}: another writer has committed so many epochs after {last.epoch} that its record is deleted, or "
                "the checkpoint was deleted or moved; what was to be committed now is not; put the checkpoint back, or make a new engine "
                "to go on from the last commit"
            ) from None
        if not is_intact(data) or checksum_of(data) != last.crc:
            decoded(f"{self.store.url}: {name}", data)  # If it is damaged, that is the error.
            raise self._replaced(last.epoch)
        return last.crc

    def _require_next(self, before: RecordFacts, first: int) -> None:
        """Check that a record that has come since the last look goes on from the one before it.

        Raises:
            CheckpointError: the checkpoint was replaced since.
            CorruptFileError: the records are of two histories.
        """
        if not self._records.facts(first).goes_on_from(before):
            last = self._records.facts(self._records.firsts[-1])
            if self._records.crc_there(self._records.firsts[-1]) != last.crc:
                raise self._replaced(last.epoch)
        self._records.require_one_history(before, first)

    def _replaced(self, epoch: int) -> CheckpointError:
        return CheckpointError(
            f"{self.store.url}: the record of epoch {epoch} is another one than before: the checkpoint was replaced by another copy "
            "while it was in use; nothing was committed to it since; make a new engine or reader, which goes on from what is there"
        )

    def _is_overtaken(self, epoch: int) -> bool:
        """Return whether there are later commits than that of this epoch, and the next one is no longer in a file of its own.

        A sweep may delete a record before one that is older, and may pack records after one that it leaves alone.
        """
        if not self.store.excludes_writers:
            return False  # The note costs a request, and may be late.
        note = self.store.acknowledged()
        return note is not None and note.committed > epoch and not self._is_there(epoch + 1)

    def _is_there(self, first: int) -> bool:
        try:
            self.store.read(record_name(first))
        except MissingFileError:
            return False
        return True


def _what_there_is(epoch: int, epochs: list[int], before: int) -> str:
    """Return the message for a commit that is not there."""
    if not epochs:
        return f"there is no commit of epoch {epoch}: none has been made yet"
    if before < 0:
        gone = f"the commit of epoch {epoch} is no longer retained, the oldest is epoch {epochs[0]}"
        return f"{gone}; keep more commits with Checkpoint(keep=...)"
    if before == len(epochs) - 1:
        return f"there is no commit of epoch {epoch} yet, the last is epoch {epochs[-1]}"
    return f"there is no commit of epoch {epoch}; the nearest are those of {epochs[before]} and {epochs[before + 1]}"
