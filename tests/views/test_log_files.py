"""Logs of web servers as rows: what a line may look like, and what becomes of lines that are none."""

import random
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import pytest

from evercurrent.core.data.errors import FileError
from evercurrent.views.connectors.files import Reader
from evercurrent.views.connectors.lines import BLOCK_BYTES
from evercurrent.views.connectors.log_files import COLUMNS, HOPELESS

REAL = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "access.log"

HITS = pl.Schema(
    {
        "ip": pl.String(),
        "at": pl.Datetime("us", "UTC"),
        "method": pl.String(),
        "path": pl.String(),
        "status": pl.Int64(),
        "bytes": pl.Int64(),
    }
)

ALL = pl.Schema({name: HITS[name] if name in ("at", "status", "bytes") else pl.String() for name in COLUMNS})

GOOD = '192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET /x HTTP/1.0" 200 2326'

THEN = datetime(2000, 10, 10, 20, 55, 36, tzinfo=UTC)


def log(folder: Path, *lines: str, name: str = "access.log", end: str = "\n") -> Path:
    path = folder / name
    path.write_text("".join(line + end for line in lines), "utf-8", newline="")
    return path


def reader(*paths: Path, schema: pl.Schema = HITS, batch_rows: int = 1000) -> Reader:
    return Reader("hits", paths, schema, diffs=False, batch_rows=batch_rows)


def rows(found: Reader) -> pl.DataFrame:
    return pl.concat([batch.frame for batch in found.batches()])


def one(folder: Path, line: str, schema: pl.Schema = ALL) -> dict[str, object]:
    """The row of a line."""
    found = reader(log(folder, line), schema=schema)
    (row,) = rows(found).rows(named=True)
    assert found.refused.height == 0
    return row


class TestALine:
    def test_of_the_common_format(self, tmp_path):
        assert one(tmp_path, GOOD) == {
            "ip": "192.0.2.7", "ident": None, "user": None, "at": THEN,
            "method": "GET", "path": "/x", "protocol": "HTTP/1.0", "status": 200, "bytes": 2326,
            "referer": None, "agent": None,
        }  # fmt: skip

    def test_of_the_combined_format(self, tmp_path):
        line = GOOD.replace("- -", "id ada", 1) + ' "http://example.org/" "Mozilla/5.0 (X11)"'
        found = one(tmp_path, line)
        assert (found["ident"], found["user"]) == ("id", "ada")
        assert (found["referer"], found["agent"]) == ("http://example.org/", "Mozilla/5.0 (X11)")

    @pytest.mark.parametrize(
        ("text", "method", "path", "protocol"),
        [
            ("GET / HTTP/1.1", "GET", "/", "HTTP/1.1"),
            ("GET /a b  c HTTP/1.1", "GET", "/a b  c", "HTTP/1.1"),
            ("GET /old", "GET", "/old", None),
            ("GET /x HTTP/2", "GET", "/x", "HTTP/2"),
            ("VERSION-CONTROL /x HTTP/1.1", "VERSION-CONTROL", "/x", "HTTP/1.1"),
            (r"GET /a\"b\\ HTTP/1.1", "GET", r"/a\"b\\", "HTTP/1.1"),
            (r"\x16\x03\x01\x02", None, r"\x16\x03\x01\x02", None),
            ("GET", None, "GET", None),
            ("t3 12.1.2", None, "t3 12.1.2", None),
            ("", None, "", None),
            ("-", None, None, None),
            (
                "GET /[10/Oct/2000:13:55:36 +0000] HTTP/1.1",
                "GET",
                "/[10/Oct/2000:13:55:36 +0000]",
                "HTTP/1.1",
            ),
        ],
    )
    def test_request(self, tmp_path, text, method, path, protocol):
        """No request is refused: what is no method is part of the path."""
        found = one(tmp_path, GOOD.replace("GET /x HTTP/1.0", text))
        assert (found["method"], found["path"], found["protocol"]) == (method, path, protocol)

    @pytest.mark.parametrize(
        ("written", "expected"),
        [
            ("10/Oct/2000:13:55:36 -0700", THEN),
            ("10/Oct/2000:20:55:36 +0000", THEN),
            ("11/Oct/2000:02:25:36 +0530", THEN),
            ("29/Feb/2000:23:59:59 +0000", datetime(2000, 2, 29, 23, 59, 59, tzinfo=UTC)),
            ("01/Jan/1970:00:00:00 +0100", datetime(1969, 12, 31, 23, tzinfo=UTC)),
        ],
    )
    def test_time(self, tmp_path, written, expected):
        assert one(tmp_path, GOOD.replace("10/Oct/2000:13:55:36 -0700", written))["at"] == expected

    @pytest.mark.parametrize(
        ("dtype", "expected"),
        [
            (pl.Datetime("us"), THEN.replace(tzinfo=None)),
            (pl.Datetime("ms"), THEN.replace(tzinfo=None)),
            (pl.Datetime("ns", "Asia/Kolkata"), THEN.astimezone(timezone(timedelta(hours=5.5)))),
        ],
    )
    def test_time_in_the_type_that_is_declared(self, tmp_path, dtype, expected):
        schema = pl.Schema({"at": dtype})
        frame = rows(reader(log(tmp_path, GOOD), schema=schema))
        assert frame.schema == schema
        assert frame.item() == expected

    def test_sizes_and_statuses(self, tmp_path):
        """A dash for the size means that nothing was sent; one for the status, that it is unknown."""
        assert one(tmp_path, GOOD.replace("200 2326", "304 -"))["bytes"] == 0
        assert one(tmp_path, GOOD.replace("200 2326", "- 5000000000"))["bytes"] == 5_000_000_000
        assert one(tmp_path, GOOD.replace("200 2326", "- 0"))["status"] is None

    @pytest.mark.parametrize("host", ["2001:db8::1", "crawler.example.net", "::ffff:192.0.2.7"])
    def test_hosts(self, tmp_path, host):
        assert one(tmp_path, GOOD.replace("192.0.2.7", host))["ip"] == host

    def test_a_user_with_spaces_and_brackets(self, tmp_path):
        assert one(tmp_path, GOOD.replace("- -", "- ada of[x] byron", 1))["user"] == "ada of[x] byron"

    def test_quotes_in_the_agent(self, tmp_path):
        agent = r"a \"bot\" [10/Oct/2000:13:55:36 -0700] \\"
        assert one(tmp_path, GOOD + f' "-" "{agent}"')["agent"] == agent

    @pytest.mark.parametrize(
        ("tail", "referer", "agent"),
        [
            (' "-" "bot', None, "bot"),
            (' "-" "', None, ""),
            (' "-"', None, None),
            (' "http://ex', "http://ex", None),
            (' "', "", None),
            (' "" ""', "", ""),
        ],
    )
    @pytest.mark.parametrize("end", ["\n", "\r\n", ""])
    def test_the_end_of_which_was_cut_off(self, tmp_path, tail, referer, agent, end):
        """All that the common format has is there, so the request is counted."""
        path = log(tmp_path, GOOD + tail, end=end)
        for schema in (ALL, HITS):
            found = rows(reader(path, schema=schema)).row(0, named=True)
            assert (found["at"], found["bytes"]) == (THEN, 2326)
            assert (found.get("referer"), found.get("agent")) in ((referer, agent), (None, None))
            assert (schema is HITS) or (found["referer"], found["agent"]) == (referer, agent)

    def test_bytes_that_are_not_utf8_are_written_as_servers_write_them(self, tmp_path):
        path = tmp_path / "access.log"
        path.write_bytes(
            GOOD.replace("/x", "/caf\xe9").encode("latin-1") + b"\n" + GOOD.replace("/x", "/café").encode()
        )
        assert rows(reader(path))["path"].to_list() == [r"/caf\xe9", "/café"]

    def test_only_declared_columns_in_their_order(self, tmp_path):
        schema = pl.Schema({"bytes": pl.Float64(), "ip": pl.Categorical(), "status": pl.UInt16()})
        frame = rows(reader(log(tmp_path, GOOD), schema=schema))
        assert frame.schema == schema
        assert frame.row(0) == (2326.0, "192.0.2.7", 200)


BAD = {
    "no host, identity and user": ["nonsense", "192.0.2.7 -", "[10/Oct/2000:13:55:36 -0700]"],
    "no time in brackets": [
        GOOD.replace("[", "").replace("]", ""),
        GOOD.replace("/Oct/", "/10/"),
        GOOD.replace(" -0700", ""),
        GOOD.split("-0700")[0],
    ],
    "no request in quotes": [GOOD.replace('"', ""), GOOD.replace('1.0"', "1.0"), GOOD.split(" HTTP")[0]],
    "no status and size": [GOOD.replace("200 2326", ""), GOOD.replace(" 200 ", " 20 "), GOOD.replace("2326", "many")],
    "something else than referer and agent in quotes after the size": [
        GOOD + "x",
        GOOD + " - -",
        GOOD + ' "-" "bot" "192.0.2.8"',
        GOOD + ' "-" "bot"' + GOOD,
        GOOD + ' "-" "cut ' + GOOD,
        GOOD + ' "with a " quote" "-"',
    ],
    "no such time": [
        GOOD.replace("10/Oct", "31/Feb"),
        GOOD.replace("Oct", "Okt"),
        GOOD.replace("13:55:36", "25:00:00"),
    ],
    "bytes that does not fit Int64": [GOOD.replace("2326", "9" * 30)],
}  # fmt: skip


class TestOddLines:
    @pytest.mark.parametrize(
        ("reason", "line"), [(why, line) for why, lines in BAD.items() for line in lines]
    )
    @pytest.mark.parametrize("schema", [HITS, ALL])
    def test_are_refused_with_number_and_reason(self, tmp_path, reason, line, schema):
        path = log(tmp_path, GOOD, line, GOOD)
        found = reader(path, schema=schema)
        assert rows(found).height == 2
        assert found.refused.rows() == [(str(path), 2, reason, line)]

    def test_do_not_hide_each_other(self, tmp_path):
        lines = [GOOD, *(line for lines in BAD.values() for line in lines), GOOD]
        found = reader(log(tmp_path, *lines, end="\r\n"))
        assert rows(found).height == 2
        refused = found.refused
        assert refused["line"].to_list() == list(range(2, len(lines)))
        assert refused["text"].to_list() == lines[1:-1]
        assert refused["reason"].to_list() == [why for why, each in BAD.items() for _ in each]
        (file,) = found.logs
        assert file.refused_for == {why: len(each) for why, each in BAD.items()}

    def test_empty_lines_are_counted_and_nothing_else(self, tmp_path):
        found = reader(log(tmp_path, "", GOOD, "  ", "odd", ""))
        assert rows(found).height == 1
        assert found.refused["line"].to_list() == [4]

    def test_nuls_of_a_crash(self, tmp_path):
        found = reader(log(tmp_path, GOOD, "\0" * 50 + GOOD, "\0" * 50))
        rows(found)
        assert found.refused["line"].to_list() == [3]

    def test_a_value_that_does_not_fit_the_declared_type(self, tmp_path):
        schema = pl.Schema({"bytes": pl.Int8(), "method": pl.Enum(["GET"])})
        lines = [GOOD.replace("2326", "100"), GOOD, GOOD.replace("GET", "PUT").replace("2326", "1")]
        found = reader(log(tmp_path, *lines), schema=schema)
        assert rows(found).rows() == [(100, "GET")]
        assert [row[1] for row in found.refused.rows()] == [2, 3]
        assert found.refused["reason"][0] == "bytes that does not fit Int8"

    def test_numbers_hold_across_blocks_and_batches(self, tmp_path):
        count = BLOCK_BYTES // len(GOOD) + 2000
        lines = [GOOD] * count
        odd = sorted(random.Random(1).sample(range(count), 50))
        for place in odd:
            lines[place] = f"odd {place}"
        found = reader(log(tmp_path, *lines), batch_rows=999)
        sizes = [batch.frame.height for batch in found.batches()]
        assert sum(sizes) == count - 50
        assert set(sizes[:-1]) == {999}
        assert found.refused["line"].to_list() == [place + 1 for place in odd]
        assert found.done_bytes == found.total_bytes

    def test_more_than_are_kept_are_counted(self, tmp_path, monkeypatch):
        monkeypatch.setattr("evercurrent.views.connectors.log_files.KEPT_LINES", 3)
        found = reader(log(tmp_path, GOOD, *["odd"] * 10))
        rows(found)
        assert found.refused.height == 3
        assert found.logs[0].refused_for.total() == 10


class TestFiles:
    def test_that_are_no_logs(self, tmp_path):
        path = log(tmp_path, "ip,at", "1,2")
        with pytest.raises(
            FileError, match=r"access\.log: none of the first 2 lines.*line 1: no host.*\(ip,at\)"
        ):
            list(reader(path).batches())

    def test_that_grow_may_start_with_odd_lines(self, tmp_path):
        path = log(tmp_path, "the end of a line that was cut")
        found = reader(path)
        assert list(found.batches(final=False)) == []
        with path.open("a") as file:
            file.write(GOOD + "\n" + GOOD[:30])
        assert [batch.frame.height for batch in found.batches(final=False)] == [1]
        assert found.unfinished == [path]
        with path.open("a") as file:
            file.write(GOOD[30:] + "\nodd\n")
        assert [(batch.first_row, batch.frame.height) for batch in found.batches(final=False)] == [(2, 1)]
        assert found.refused["line"].to_list() == [1, 4]
        path.write_text("odd\n")
        with pytest.raises(FileError, match="shorter"):
            list(found.batches(final=False))

    def test_that_grow_are_given_up_when_too_much_is_odd(self, tmp_path):
        with pytest.raises(FileError, match="none of the first"):
            list(reader(log(tmp_path, *["odd"] * HOPELESS)).batches(final=False))

    def test_that_are_empty(self, tmp_path):
        assert list(reader(log(tmp_path)).batches()) == []
        assert list(reader(log(tmp_path, "", "")).batches()) == []

    def test_of_a_folder(self, tmp_path):
        log(tmp_path, GOOD, "odd", name="b.log")
        log(tmp_path, GOOD, GOOD, name="a.log")
        found = reader(tmp_path)
        assert [(batch.file.name, batch.first_row) for batch in found.batches()] == [
            ("a.log", 1),
            ("b.log", 1),
        ]
        assert [Path(file).name for file in found.refused["file"]] == ["b.log"]

    @pytest.mark.parametrize(
        ("column", "dtype", "words"),
        [
            ("host", pl.String(), "no column 'host'.*it has 'ip'"),
            ("at", pl.String(), r"'at' of source 'hits' is String.*pl.Datetime\('us', 'UTC'\)"),
            ("status", pl.String(), "'status'.*pl.Int64"),
            ("bytes", pl.Boolean(), "'bytes'.*pl.Int64"),
            ("path", pl.Int64(), "'path'.*pl.String"),
        ],
    )
    def test_for_sources_of_something_else(self, tmp_path, column, dtype, words):
        with pytest.raises(FileError, match=words):
            reader(log(tmp_path, GOOD), schema=pl.Schema({column: dtype}))


PLAIN = re.compile(
    r'(?P<ip>\S+) (?P<ident>\S+) (?P<user>\S+) \[(?P<at>[^]]+)\] "(?P<request>[^"]*)" (?P<status>\d+) (?P<bytes>\S+) .*'
)


@pytest.mark.skipif(not REAL.exists(), reason=f"the real log is not here: {REAL.name} in ../shared/data")
@pytest.mark.parametrize("batch_rows", [777, 10_000])
def test_the_real_log(batch_rows):
    """10,000 requests of 1,753 addresses, one line of them cut off; line by line as Python reads them."""
    found = reader(REAL, batch_rows=batch_rows)
    frame = rows(found)
    assert found.refused.height == 0
    assert frame.schema == HITS
    assert frame["ip"].n_unique() == 1753
    expected = []
    for line in REAL.read_text().splitlines():
        parts = PLAIN.fullmatch(line)
        method, path, _ = parts["request"].split(" ")
        at = datetime.strptime(parts["at"], "%d/%b/%Y:%H:%M:%S %z")
        size = 0 if parts["bytes"] == "-" else int(parts["bytes"])
        expected.append((parts["ip"], at, method, path, int(parts["status"]), size))
    assert len(expected) == 10_000
    assert frame.rows() == expected
