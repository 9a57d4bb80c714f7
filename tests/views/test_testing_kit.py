"""The test kit for users: the clock, dialogues, transcripts, the pytest plugin, random histories and checks."""

import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent import testing
from evercurrent.views.testing.matching import Attribute, Expectation, left_over
from evercurrent.views.testing.rows import RowWords
from evercurrent.views.testing.times import Times
from thinned import IS_LONG

pytest_plugins = ["pytester"]

HITS = {"ip": pl.String, "bytes": pl.Int64, "at": pl.Datetime("us", "UTC")}


def shop(mode: Any = "retracting", **options: Any) -> ec.Engine:
    """Windows of two minutes over hits, with early panes each minute."""
    engine = ec.Engine()
    hits = engine.source("hits", HITS, event_time="at", **options)
    windows = hits.window(ec.fixed("2m")).trigger(early=ec.every("1m"), late=ec.each_row()).accumulate(mode)
    engine.view("pages", windows.with_pane_info().group_by("ip").agg(pages=pl.len()))
    return engine


def words() -> ec.Engine:
    """Counts of words that may be taken back."""
    engine = ec.Engine()
    source = engine.source("words", {"word": pl.String}, kind="diffs")
    engine.view("counts", source.group_by("word").agg(n=pl.len()))
    return engine


# The clock


def test_the_clock_moves_only_when_it_is_moved(hand_clock: testing.HandClock) -> None:
    assert hand_clock.now == hand_clock.now == datetime(2024, 1, 1, tzinfo=UTC)
    assert hand_clock.advance("1m30s") == hand_clock.now == datetime(2024, 1, 1, 0, 1, 30, tzinfo=UTC)
    assert hand_clock.advance(timedelta(seconds=30)).minute == 2
    assert hand_clock.set("12:00").hour == hand_clock.now.hour == 12
    with pytest.raises(ec.InputError, match="does not go back"):
        hand_clock.set("11:59:59")
    with pytest.raises(ec.PlanError, match="duration"):
        hand_clock.advance("soon")


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        (26, 26_000_000),
        (-5, -5_000_000),
        (0.5, 500_000),
        ("00:00:26", 26_000_000),
        ("0:01", 60_000_000),
        ("00:00:26.25", 26_250_000),
        ("1970-01-01T00:00:26", 26_000_000),
        ("1970-01-01T02:00:26+02:00", 26_000_000),
        (datetime(1970, 1, 1, 0, 0, 26, tzinfo=UTC), 26_000_000),
        (float("inf"), ec.END_OF_TIME),
        ("inf", ec.END_OF_TIME),
    ],
)
def test_times_may_be_written_in_many_ways(written: Any, microseconds: int) -> None:
    assert Times("s").instant(written) == microseconds


@pytest.mark.parametrize("written", ["noon", None, True, "25 o'clock", [1]])
def test_what_is_no_time_is_refused(written: Any) -> None:
    with pytest.raises(ec.InputError, match="is not a time"):
        Times().instant(written)


@given(st.integers(-(10**12), 10**12), st.sampled_from(["ms", "s"]), st.booleans())
def test_an_instant_is_read_as_it_is_shown(instant: int, unit: str, clock: bool) -> None:
    times = Times(unit, day=86_400_000_000, clock=clock)
    shown = times.written(instant)
    assert times.instant(shown if clock else float(shown)) == instant


# Matching


def expecting(low: int, high: int, *, optional: bool = False) -> Expectation:
    among = Attribute(
        "n", (low, high), lambda row: row["n"], agree=lambda bounds, n: bounds[0] <= n <= bounds[1]
    )
    return Expectation((among,), optional)


def test_expectations_find_the_rows_that_leave_most_to_others() -> None:
    rows = [{"n": 1}, {"n": 2}, {"n": 3}]
    assert left_over([expecting(1, 3), expecting(1, 2), expecting(1, 1)], rows) == ([], [])
    greedy, narrow = expecting(1, 3), expecting(1, 1)
    assert left_over([greedy, narrow], [{"n": 1}]) == ([narrow], [])


def test_optional_expectations_take_what_others_leave() -> None:
    optional, needed = expecting(1, 2, optional=True), expecting(1, 1)
    assert left_over([optional, needed], [{"n": 1}]) == ([], [])
    assert left_over([needed, optional], [{"n": 1}, {"n": 2}]) == ([], [])


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), max_size=5),
    st.lists(st.integers(0, 4), max_size=5),
)
def test_as_few_as_possible_go_without(expectations: list[tuple[int, int, bool]], found: list[int]) -> None:
    """As many expectations as possible are met, compared with all ways to assign the rows to them."""
    expected = [expecting(low, high, optional=optional) for low, high, optional in expectations]
    rows = [{"n": n} for n in found]
    missing, unexpected = left_over(expected, rows)

    def most(needed: list[Expectation], free: list[int]) -> int:
        if not needed:
            return 0
        first, *rest = needed
        without = most(rest, free)
        taken = [1 + most(rest, free[:i] + free[i + 1 :]) for i, n in enumerate(free) if first.fits({"n": n})]
        return max([without, *taken])

    needed = [each for each in expected if not each.optional]
    assert len(missing) == len(needed) - most(needed, found)
    assert len(unexpected) >= len(rows) - len(expected)


# Dialogues


def test_a_dialogue_about_windows() -> None:
    with testing.play(shop(), start="2024-05-01T12:05Z") as play:
        play.rows("hits", [{"ip": "a", "bytes": 1, "at": "12:00:26"}], at="12:05:19").expect_nothing()
        play.at("12:06:00").expect(
            "pages", [{"ip": "a", "pages": 1, "window": ["12:00", "12:02"], "early": True, "index": 0}]
        )
        play.rows("hits", [("a", 1, "12:01:00")], watermark="12:02")
        play.expect(
            "pages",
            [
                {"pages": 2, "timing": "ON_TIME", "window_end": "12:02", "at": "12:06:00"},
                {"pages": 1, "_diff": -1},
            ],
        )
        play.expect_contents("pages", [{"ip": "a", "pages": 2}])
        play.end().advance("1h").expect_nothing("pages")
        assert play.engine.views["pages"].read()["pages"].to_list() == [2]


def test_what_was_not_expected_is_named() -> None:
    play = testing.play(shop(), start="2024-05-01T12:05Z")
    play.rows("hits", [{"ip": "a", "bytes": 1, "at": "12:00:26"}]).watermark("hits", "12:02")
    with pytest.raises(AssertionError) as caught:
        play.expect("pages", [{"ip": "a", "pages": 2}, {"ip": "b"}])
    text = str(caught.value)
    assert "Unmatched output" in text
    assert "- ip 'a', pages 2" in text
    assert "where pages is 1 and not 2" in text
    assert "Unexpected output" in text
    assert "+ window [12:00:00, 12:02:00), ip 'a', pages 1, timing 'ON_TIME'" in text


def test_a_dialogue_ends_with_nothing_left_over() -> None:
    def leaves_something() -> None:
        with testing.play(words()) as play:
            play.rows("words", [("a",)]).expect("counts", [{"word": "a", "n": 1}]).rows("words", [("b",)])

    with pytest.raises(AssertionError, match="Unexpected output"):
        leaves_something()


def test_another_error_is_not_hidden_by_what_is_left_over() -> None:
    def fails() -> None:
        with testing.play(words()) as play:
            play.expect_nothing("counts").rows("words", [("a",)]).rows("words", [{"wort": "a"}])

    with pytest.raises(ec.InputError, match="wort"):
        fails()


def test_order_is_that_of_epochs() -> None:
    def played() -> testing.Play:
        play = testing.play(words())
        return play.rows("words", [("a",), ("b",)]).rows("words", [("c",)])

    played().expect("counts", [{"word": "b"}, {"word": "a"}, {"word": "c"}], in_order=True)
    played().expect("counts", [{"word": "c"}, {"word": "a"}, {"word": "b"}])
    with pytest.raises(AssertionError, match="Unmatched"):
        played().expect("counts", [{"word": "c"}, {"word": "a"}, {"word": "b"}], in_order=True)
    with pytest.raises(AssertionError, match="word 'd'"):
        played().expect("counts", [{"word": word} for word in "abcd"], in_order=True)


def test_rows_may_be_frames_tuples_or_dictionaries_and_be_taken_back() -> None:
    with testing.play(words()) as play:
        play.rows("words", pl.DataFrame({"word": ["a", "a"]})).rows("words", [("a", -1)])
        play.rows("words", [{"word": "a", "_diff": -1}, {"word": "b"}])
        play.expect_contents("counts", [{"word": "b", "n": 1}])
        play.rows("words", [("c", -1)]).expect_refused("words", 1)
        with pytest.raises(AssertionError, match="1 rows are refused"):
            play.expect_refused("words", 2)


def test_rows_that_fit_no_source_are_left_to_the_engine_to_refuse() -> None:
    with pytest.raises(ec.InputError, match="a row has 5 values"):
        testing.play(shop()).rows("hits", [("a", 1, "12:00", 2, 5)])
    with pytest.raises(ec.InputError, match="no source 'hit'"):
        testing.play(shop()).rows("hit", [("a", 1, "12:00")])


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"page": 1}, "'page' is expected, and there are the columns"),
        ({"window": "all"}, "write \\[start, end\\]"),
        ({"window_end": "noon"}, "is not a time"),
        (["a"], "is not a row"),
    ],
)
def test_words_that_mean_nothing_are_refused(expected: Any, message: str) -> None:
    with pytest.raises(ec.InputError, match=message):
        testing.play(shop()).expect("pages", [expected])


def test_words_of_panes_need_pane_information() -> None:
    with pytest.raises(ec.InputError, match="with_pane_info"):
        testing.play(words()).expect("counts", [{"index": 0}])
    with pytest.raises(ec.InputError, match="there is no view 'count'"):
        testing.play(words()).expect("count", [])


def test_cells_are_compared_as_python_compares_them() -> None:
    schema = pl.Schema({"x": pl.Float64, "day": pl.Date, "list": pl.List(pl.Float64)})
    row_words = RowWords("view 'v'", schema, Times())
    day = datetime(2024, 5, 1).date()
    (row,) = row_words.read(pl.DataFrame([(float("nan"), day, [1.0, float("nan")])], schema, orient="row"))
    for fits in (
        {"x": float("nan")},
        {"day": "2024-05-01"},
        {"day": day},
        {"list": [1.0, float("nan")]},
        {"list": [pytest.approx(1.0000001, rel=1e-3), float("nan")]},
        {},
    ):
        assert row_words.expectation(fits).fits(row), fits
    for differs in ({"x": 1.0}, {"x": None}, {"day": "2024-05-02"}, {"list": [1.0]}, {"_diff": -1}):
        assert not row_words.expectation(differs).fits(row), differs


# Transcripts

TRANSCRIPT: dict[str, Any] = {
    "format": "window-transcript/1",
    "window": {"type": "fixed", "size": 10},
    "trigger": {"default": {}},
    "accumulation": "accumulating",
    "cases": [
        {
            "id": "two windows",
            "steps": [
                {"input": [{"t": 1, "v": 1}, {"t": 12, "v": 3}, {"t": 2, "v": 2}]},
                {"watermark": 10},
                {"expect": [{"window": [0, 10], "values": [2, 1], "timing": "ON_TIME"}]},
                {"processing_time": 60, "input": [{"t": 19, "v": 4}], "watermark": "inf"},
                {"expect": [{"window": [10, 20], "values": [3, 4], "at": 60}]},
            ],
        }
    ],
}


def written(folder: Path, content: Any, name: str = "test_shop.transcript.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_a_case_takes_from_its_file_what_it_does_not_state_itself(tmp_path: Path) -> None:
    (case,) = testing.load_transcripts(written(tmp_path, TRANSCRIPT))
    report = testing.run_transcript(case)
    report.check()
    assert report.passed
    assert [pane["value"] for pane in report.panes] == [[1, 2], [3, 4]]
    assert str(case) == "test_shop.transcript.json: two windows"


def test_a_report_names_what_is_wrong(tmp_path: Path) -> None:
    (case,) = testing.load_transcripts(written(tmp_path, TRANSCRIPT))
    report = testing.run_transcript(
        case.altered(accumulation="retracting", window={"type": "fixed", "size": 5})
    )
    with pytest.raises(testing.TranscriptError) as caught:
        report.check()
    assert str(caught.value) == str(report)
    assert "step 3:\nUnmatched output" in str(report)
    assert "All output:\n  window [0, 5), value [1, 2], timestamp 4" in str(report)


YAML = """
format: window-transcript/1
window: {type: session, gap: 1min}
trigger: {after_watermark: {early: {after_count: 2}, late: {after_count: 1}}}
accumulation: accumulating_and_retracting
allowed_lateness: inf
aggregate: sum
cases:
  - id: merged
    steps:
      - input: [{key: a, v: 5, t: 12:00:26}, {key: a, v: 7, t: 12:02:24}]
        watermark: 12:06:00
      - expect:
          - {key: a, window: [12:00:26, 12:01:26], value: 5, timing: ON_TIME}
          - {key: a, window: [12:02:24, 12:03:24], value: 7, timing: ON_TIME}
      - input: [{key: a, v: 1, t: 12:01:25}]
      - expect:
          - key: a
            window: [12:00:26, 12:03:24]
            value: 13
            late: true
            index: 0
            retracts:
              - {window: [12:00:26, 12:01:26], value: 5}
              - {value: 7}
"""


def test_yaml_is_read_alike_and_times_of_the_day_are_times(tmp_path: Path) -> None:
    (case,) = testing.load_transcripts(written(tmp_path, YAML, "merged.yaml"))
    testing.run_transcript(case).check()
    (case,) = testing.load_transcripts(
        written(tmp_path, YAML.replace("value: 7}", "value: 8}"), "merged.yml")
    )
    assert "retracts (window [12:02:24, 12:03:24), key 'a', value 7" in str(testing.run_transcript(case))


def test_yaml_without_pyyaml_is_an_error_that_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ec.FileError, match="pip install pyyaml"):
        testing.load_transcripts(written(tmp_path, YAML, "merged.yaml"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "{", "not JSON"),
        ("x.yaml", "a: [", "not YAML"),
        ("x.json", "[]", "no transcripts"),
        ("x.json", {"format": "window-transcript/2", "cases": []}, "format 'window-transcript/2'; there are"),
        ("x.json", {"format": "window-transcript/1", "cases": [{"steps": []}]}, "case 1 has no id"),
    ],
)
def test_files_that_are_none_are_refused(tmp_path: Path, name: str, content: Any, message: str) -> None:
    with pytest.raises(ec.FileError, match=message):
        testing.load_transcripts(written(tmp_path, content, name))
    with pytest.raises(ec.FileError, match="cannot be read"):
        testing.load_transcripts(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": {"type": "tumbling", "size": 10}}, "window 'tumbling'; there are fixed"),
        ({"window": "global"}, "write a mapping"),
        ({"trigger": {"sometimes": {}}}, "unknown trigger 'sometimes'"),
        ({"trigger": "default"}, "write one"),
        ({"accumulation": "some"}, "accumulation 'some'; there are"),
        ({"aggregate": "median"}, "aggregate 'median'; there are"),
        ({"time_unit": "h "}, "time unit"),
        ({"steps": [{"wait": 1}]}, "step 1 has the unknown word 'wait'; there are"),
        ({"steps": [{"expect": [{"vale": 1}]}]}, "'vale' is expected"),
        ({"timestamp_combiner": "output_at_earliest_transformed"}, "goes with a window whose custom is"),
    ],
)
def test_words_that_are_not_known_are_refused(changes: dict[str, Any], message: str) -> None:
    case = testing.Transcript("x", "window-transcript/1", {**TRANSCRIPT, **TRANSCRIPT["cases"][0], **changes})
    with pytest.raises(ec.InputError, match=message):
        testing.run_transcript(case)


def test_a_retraction_that_no_pane_takes_with_it_is_output_too() -> None:
    """A retraction without a new value has to be expected, as any other output has."""
    engine = words()
    with testing.play(engine) as play:
        play.rows("words", [("a",)]).expect("counts", [{}])
        play.rows("words", [("a", -1)])
        with pytest.raises(AssertionError, match=r"\+ word 'a', n 1, retracted"):
            play.expect("counts", [])


# Transcripts about an engine of one's own

ENGINE_TRANSCRIPT: dict[str, Any] = {
    "format": "engine-transcript/1",
    "application": "the_shop:shop",
    "start": "2024-05-01T12:05Z",
    "cases": [
        {
            "id": "pages",
            "steps": [
                {"rows": {"hits": [{"ip": "a", "bytes": 1, "at": "12:00:26"}]}},
                {"at": "12:06:00"},
                {"expect": {"pages": [{"ip": "a", "pages": 1, "early": True}]}},
                {"watermark": {"hits": "12:02"}, "expect": {"pages": []}},
                {
                    "at": "12:07",
                    "rows": {"hits": [["a", 1, "12:00:30"]]},
                    "watermark": {"hits": "inf"},
                    "expect_in_order": {"pages": [{"pages": 1, "_diff": -1}, {"pages": 2, "late": True}]},
                    "contents": {"pages": [{"pages": 2, "at": "12:07"}]},
                    "refused": {"hits": 0},
                },
            ],
        }
    ],
}
THE_SHOP = """
import polars as pl
import evercurrent as ec

def shop():
    engine = ec.Engine()
    schema = {"ip": pl.String, "bytes": pl.Int64, "at": pl.Datetime("us", "UTC")}
    hits = engine.source("hits", schema, event_time="at")
    windows = hits.window(ec.fixed("2m")).trigger(early=ec.every("1m"), late=ec.each_row())
    engine.view("pages", windows.with_pane_info().group_by("ip").agg(pages=pl.len()))
    return engine
"""


def engine_case(**changes: Any) -> testing.Transcript:
    case = {**ENGINE_TRANSCRIPT, **ENGINE_TRANSCRIPT["cases"][0], **changes}
    return testing.Transcript("pages", "engine-transcript/1", case)


def test_a_transcript_about_an_engine() -> None:
    report = testing.run_on_engine(engine_case(), shop)
    report.check()
    assert len(report.output) == 3


def test_all_that_is_wrong_about_an_engine_is_named() -> None:
    steps = [
        {"rows": {"hits": [["a", 1, "12:00"]]}},
        {"watermark": {"hits": "12:02"}, "expect": {"pages": [{"pages": 7}]}, "refused": {"hits": 3}},
        {"rows": {"hits": [["a", 1, "12:00"]]}},
    ]
    report = testing.run_on_engine(engine_case(steps=steps), shop)
    text = str(report)
    assert len(report.failures) == 3
    assert "step 2: view 'pages'" in text
    assert "step 2: source 'hits': 0 rows are refused, expected are 3" in text
    assert "at the end: view 'pages'" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": [{"row": {}}]}, "step 1 has the unknown word 'row'; there are"),
        ({"steps": [{"rows": {"hit": []}}]}, "no source 'hit'"),
        ({"application": "the_shop"}, "name a function"),
        ({"application": None}, "name a function"),
        ({"application": "no_such_module:shop"}, "No module named 'no_such_module'"),
        ({"application": "evercurrent:shop"}, "has no attribute 'shop'"),
        ({"application": "evercurrent:__version__"}, "is str; each case needs a new engine"),
        ({"application": "builtins:dict"}, "gave dict, not an Engine"),
    ],
)
def test_what_an_engine_transcript_cannot_mean_is_refused(changes: dict[str, Any], message: str) -> None:
    case = engine_case(**changes)
    with pytest.raises(ec.InputError, match=message):
        testing.run_on_engine(case, shop) if "steps" in changes else testing.run_case(case)
    with pytest.raises(ec.InputError, match="run_on_engine"):
        testing.run_transcript(case)


# Transcripts that declare their views

DECLARED: dict[str, Any] = {
    "format": "engine-transcript/1",
    "sources": {"hits": {"columns": {"ip": "String", "n": "Int64"}, "kind": "diffs"}},
    "views": {"sums": "hits.group_by('ip').agg(n=pl.col('n').sum())", "top": "sums.top_k(1, by='n')"},
    "cases": [
        {
            "id": "sums",
            "steps": [
                {"rows": {"hits": [["a", 1], ["b", 3]]}, "expect": {"top": [{"ip": "b", "n": 3}]}},
                {"rows": {"hits": [["b", 3, -1]]}, "contents": {"sums": [{"ip": "a"}]}},
                {"expect": {"top": [{"ip": "b", "_diff": -1}, {"ip": "a", "n": 1}]}},
            ],
        }
    ],
}


def declared_case(folder: Path, **changes: Any) -> testing.Transcript:
    (case,) = testing.load_transcripts(
        written(folder, {**DECLARED, "cases": [{**DECLARED["cases"][0], **changes}]})
    )
    return case


def test_a_transcript_that_declares_its_views(tmp_path: Path) -> None:
    testing.run_case(declared_case(tmp_path)).check()


def test_a_row_with_a_diff_of_3_is_expected_three_times(tmp_path: Path) -> None:
    views, rows = {"all": "hits"}, {"hits": [["a", 1, 3]]}
    for diff, is_right in ((3, True), (2, False), (4, False)):
        steps = [{"rows": rows, "expect": {"all": [{"ip": "a", "n": 1, "_diff": diff}]}}]
        assert testing.run_case(declared_case(tmp_path, views=views, steps=steps)).passed == is_right


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": {}, "views": {"v": "hits"}}, "view 'v': name 'hits' is not defined"),
        ({"sources": {"hits": {"kind": "diffs"}}}, "source 'hits' has no columns"),
        ({"sources": {"hits": {"columns": {"n": "Integer"}}}}, "source 'hits': column 'n': name 'Integer'"),
        ({"sources": {"hits": {"columns": {"n": 64}}}}, "column 'n': 64 is not an expression"),
        ({"sources": {"hits": {"columns": {"n": "Int64"}, "sort": "x"}}}, "source 'hits': .*'sort'"),
        ({"sources": {"hits": {"columns": {"n": "Int64"}, "watermark": "late"}}}, "watermark: name 'late'"),
        ({"sources": {"a b": {"columns": {"n": "Int64"}}}}, "sources: 'a b' cannot be used in an expression"),
        ({"sources": ["hits"]}, "sources is list; write a mapping"),
        ({"views": {"v": "hits.filter("}}, "view 'v': .*never closed"),
        ({"views": {"v": "hits.select('x')"}}, "view 'v': .*'x'"),
        ({"views": {"v": "1"}}, "view 'v': "),
        ({"application": "the_shop:shop"}, "it has an application and views; leave one of them out"),
        ({"steps": [{"rows": {"hits": [["a", "many"]]}}]}, "step 1: .*'n'"),
        ({"steps": [{}, {"expect": {"top": [{"m": 1}]}}]}, "step 2: view 'top': 'm' is expected"),
    ],
)
def test_what_is_declared_and_cannot_be_meant_names_the_file_and_the_place(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ec.InputError, match=message) as caught:
        testing.run_case(declared_case(tmp_path, **changes))
    assert str(caught.value).startswith("transcript 'test_shop.transcript.json: sums'")


# The pytest plugin


def test_the_plugin_is_found_by_pytest() -> None:
    (found,) = entry_points(group="pytest11", name="evercurrent")
    assert found.value == "evercurrent.views.testing.pytest_plugin"


def test_files_of_transcripts_are_tests(pytester: pytest.Pytester) -> None:
    written(pytester.path, TRANSCRIPT)
    written(pytester.path, YAML, "test_merged.transcript.yaml")
    written(pytester.path, YAML, "merged.transcript.yaml")
    written(pytester.path, ENGINE_TRANSCRIPT, "test_engine.transcript.json")
    written(pytester.path, THE_SHOP, "the_shop.py")
    result = pytester.runpytest_subprocess("-v", "-o", "pythonpath=.")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*test_shop.transcript.json::two windows PASSED*"])


def test_failures_are_reported_in_the_words_of_the_transcript(pytester: pytest.Pytester) -> None:
    wrong = json.loads(json.dumps(TRANSCRIPT))
    wrong["cases"][0]["steps"][2]["expect"][0]["values"] = [1]
    refused = {**TRANSCRIPT["cases"][0], "id": "refused", "trigger": {"after_count": 1}}
    wrong["cases"].append(refused)
    written(pytester.path, wrong)
    written(pytester.path, "{", "test_broken.transcript.json")
    result = pytester.runpytest_subprocess("--continue-on-collection-errors")
    result.assert_outcomes(failed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*values is [[]1, 2[]] and not [[]1[]]*", "*the trigger finishes*put it into repeat*"]
    )
    result.stdout.fnmatch_lines(["*test_broken.transcript.json: not JSON*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_the_clock_is_a_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_clock(hand_clock): assert hand_clock.advance('1m') == hand_clock.now")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


# Random histories and checks

LOOK = settings(max_examples=2000, database=None, phases=[Phase.generate])
"""Find any example, and do not make it smaller."""


def everything() -> ec.Engine:
    """Sources of every kind, under windows and not."""
    engine = ec.Engine()
    hits = engine.source("hits", HITS, event_time="at")
    edits = engine.source(
        "edits", {"k": pl.Int64, "x": pl.Float64, "at": pl.Datetime("ms")}, kind="diffs", event_time="at"
    )
    users = engine.source("users", {"ip": pl.String, "name": pl.String}, kind="upsert", key="ip")
    seen = engine.source(
        "seen", {"n": pl.Int64, "at": pl.Datetime("us")}, event_time="at", watermark=ec.ingress_time()
    )
    engine.view(
        "visits", hits.window(ec.sessions("10m")).group_by("ip").agg(n=pl.len(), bytes=pl.col("bytes").sum())
    )
    triggered = edits.window(ec.sliding("10m", every="5m")).trigger(early=ec.every("1m"), late=ec.each_row())
    engine.view("edits", triggered.with_pane_info().group_by("k").agg(x=pl.col("x").max()))
    engine.view("named", hits.join(users, on="ip").group_by("name").agg(n=pl.len()))
    engine.view("arrivals", seen.window(ec.fixed("1m")).group_by().agg(n=pl.col("n").sum()))
    return engine


def pushed(make: Callable[[], ec.Engine], history: testing.History) -> ec.Engine:
    engine = make()
    for batch in history:
        batch.push(engine)
    return engine


@settings(max_examples=20)
@given(testing.histories(everything))
def test_views_of_every_kind_pass_the_checks(history: testing.History) -> None:
    testing.assert_split_and_order_do_not_matter(everything, history)
    testing.assert_replay_is_equal(everything, history)
    for view in pushed(everything, history).views.values():
        testing.assert_retractions_sum(view)


@settings(max_examples=100 if IS_LONG else 40)
@given(testing.histories(everything, max_epochs=8))
def test_histories_take_back_only_what_is_there(history: testing.History) -> None:
    engine = pushed(everything, history)
    assert engine.ledger().is_empty()
    assert engine.epoch_number == len(history)
    moments = [batch.at for batch in history]
    assert moments == sorted(moments)


@pytest.mark.parametrize(
    "breaks",
    [
        lambda history: any((frame.get_column("_diff", default=None) == -1).any() for batch in history for name, frame in batch.rows.items() if name in ("edits", "users")),
        lambda history: sum(len(batch.watermarks) for batch in history) > 3,
        lambda history: any(not batch.rows and not batch.watermarks for batch in history),
        lambda history: history[-1].at > history[0].at,
        lambda history: any(not frame["at"].is_sorted() for batch in history for name, frame in batch.rows.items() if name == "hits"),
        lambda history: any(frame["ip"].has_nulls() for batch in history for name, frame in batch.rows.items() if name == "hits"),
    ],
    ids=["taken back", "watermarks", "empty", "time goes on", "out of order", "nulls"],
)  # fmt: skip
def test_histories_hold_what_breaks_views(breaks: Callable[[testing.History], bool]) -> None:
    assert breaks(find(testing.histories(everything), breaks, settings=LOOK))


def test_cells_may_be_given_for_columns() -> None:
    cells = {"ip": st.just("x"), "hits.bytes": st.just(7)}
    history = find(
        testing.histories(shop(), cells=cells), lambda history: any(frame.height for batch in history for frame in batch.rows.values())
    )  # fmt: skip
    rows = [row[:2] for batch in history for frame in batch.rows.values() for row in frame.rows()]
    assert set(rows) == {("x", 7)}


def test_types_without_values_of_their_own_need_cells() -> None:
    engine = ec.Engine()
    engine.source("s", {"x": pl.Array(pl.Int64, 2)})
    with pytest.raises(ec.InputError, match=r"column 'x' is Array.*give cells="):
        testing.histories(engine)
    given_cells = testing.histories(engine, cells={"x": st.just([1, 2])})
    history = find(given_cells, lambda history: any(batch.rows for batch in history), settings=LOOK)
    assert {tuple(x) for batch in history for frame in batch.rows.values() for x in frame["x"]} <= {(1, 2)}


@pytest.mark.parametrize(
    "dtype",
    [
        pl.Int8, pl.UInt64, pl.Float32, pl.Boolean, pl.String, pl.Binary, pl.Date, pl.Time, pl.Duration("ms"),
        pl.Datetime("ns"), pl.Decimal(10, 2), pl.List(pl.Int64), pl.Struct({"a": pl.String}), pl.Enum(["a", "b"]),
    ],
    ids=str,
)  # fmt: skip
def test_values_of_every_type_are_rows(dtype: Any) -> None:
    def make() -> ec.Engine:
        engine = ec.Engine()
        engine.view("v", engine.source("s", {"x": dtype}, kind="diffs").unique())
        return engine

    seen: set[pl.DataType] = set()

    @settings(max_examples=10)
    @given(testing.histories(make))
    def law(history: testing.History) -> None:
        testing.assert_split_and_order_do_not_matter(make, history)
        seen.update(frame.schema["x"] for batch in history for frame in batch.rows.values() if frame.height)

    law()
    assert seen == {dtype if isinstance(dtype, pl.DataType) else dtype()}


def test_panes_that_depend_on_when_they_are_emitted_are_found() -> None:
    def make() -> ec.Engine:
        return shop("accumulating")

    def depends(history: testing.History) -> bool:
        try:
            testing.assert_split_and_order_do_not_matter(make, history)
        except AssertionError:
            return True
        return False

    history = find(testing.histories(make), depends, settings=LOOK)
    with pytest.raises(AssertionError, match="view 'pages' depends on how its input is cut"):
        testing.assert_split_and_order_do_not_matter(make, history)
    testing.assert_split_and_order_do_not_matter(make, history, views=[])
    with pytest.raises(ec.InputError, match="no view 'page'"):
        testing.assert_split_and_order_do_not_matter(make, history, views=["page"])


def test_a_definition_that_depends_on_more_than_its_input_is_found() -> None:
    calls = iter(range(1000))

    def make() -> ec.Engine:
        engine = ec.Engine()
        source = engine.source("s", {"x": pl.Int64})
        schema = {"x": pl.Int64}
        engine.view(
            "v",
            source.map_batches(
                lambda frame: frame.with_columns(x=pl.lit(next(calls), pl.Int64)), schema=schema
            ),
        )
        return engine

    history = [testing.Batch(datetime(2024, 1, 1, tzinfo=UTC), {"s": pl.DataFrame({"x": [1]})})]
    with pytest.raises(AssertionError, match="other deltas when the same input came again"):
        testing.assert_replay_is_equal(make, history)


class GivenView:
    """A view with the deltas and the contents that a test gives it."""

    name = "given"

    def __init__(self, deltas: list[tuple[str, int]], held: list[str]) -> None:
        self._frames = [
            pl.DataFrame({"x": [x], "_epoch": [n], "_diff": [diff]}) for n, (x, diff) in enumerate(deltas)
        ]
        self._held = pl.DataFrame({"x": held}, schema={"x": pl.String})

    def deltas(self) -> list[pl.DataFrame]:
        return self._frames

    def read(self) -> pl.DataFrame:
        return self._held


def test_deltas_that_do_not_add_up_are_found() -> None:
    check: Any = testing.assert_retractions_sum
    check(GivenView([("a", 1), ("a", -1), ("b", 2)], ["b", "b"]))
    with pytest.raises(AssertionError, match=r"epoch 1 retracts \('b',\)"):
        check(GivenView([("a", 1), ("b", -1)], ["a"]))
    check(GivenView([("a", 1), ("b", -1)], ["a"]), signed=True)
    with pytest.raises(AssertionError, match="less than it holds"):
        check(GivenView([("a", 1)], ["a", "b"]))


def test_histories_without_hypothesis_are_an_error_that_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.setitem(sys.modules, "hypothesis.strategies", None)
    monkeypatch.delitem(sys.modules, "evercurrent.views.testing.histories")
    with pytest.raises(ImportError, match="pip install hypothesis"):
        _ = testing.histories
    with pytest.raises(AttributeError, match="history_of"):
        _ = testing.history_of  # type: ignore[attr-defined]


# The page about it


def test_what_the_page_about_testing_shows_is_true(tmp_path: Path) -> None:
    """Its Python runs in order in one namespace, its transcripts pass."""
    page = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
    names: dict[str, Any] = {}
    cases = 0
    for language, text in re.findall(
        r"^```(\w+)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        if language == "python":
            exec(compile(text, page.name, "exec"), names)
            continue
        for case in testing.load_transcripts(written(tmp_path, text, "page.yaml")):
            names_shop = case.get("application") is not None
            report = testing.run_on_engine(case, names["shop"]) if names_shop else testing.run_case(case)
            report.check()
            cases += 1
    names["test_pages"]()
    assert cases == 3
