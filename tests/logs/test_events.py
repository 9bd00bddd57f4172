import subprocess
import sys
import textwrap
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from prsrank.errors import DataWarning, InputError
from prsrank.logs.array_checks import check_design
from prsrank.logs.click_log import ClickLog
from prsrank.logs.events import event_blocks


def events(**columns):
    """Two sessions of a query, one of another; rows out of order."""
    frame = {
        "query_id": ["q2", "q1", "q1", "q2", "q1", "q1"],
        "session_id": [5, 7, 7, 5, 9, 9],
        "doc_id": [20, 11, 10, 21, 10, 11],
        "position": [1, 3, 1, 2, 1, 3],
        "click": [0, 1, 0, 0, 1, 1],
    }
    return pd.DataFrame(frame | columns)


def random_events(rng, *, sessions=200, strings=False):
    """Rows of sessions with gaps, several designs, and repeated rankings; shuffled."""
    rows = []
    for session in range(sessions):
        query = int(rng.integers(5))
        docs = np.random.default_rng(rng.integers(3)).permutation(6)[: 2 + query % 3]
        design = ["", "uniform", "swap:1:2"][session % 3]
        for index, doc in enumerate(docs):
            position = 1 + index * (1 + query % 2)
            rows.append(
                (
                    query - 2,
                    session * 3,
                    int(doc) * 7,
                    position,
                    bool(rng.random() < 0.4),
                    0.5 + 0.25 * (query % 2) / position,
                    design,
                    1_000_000 * (sessions - session),
                    f"device {session % 2}",
                )
            )
    names = ["query_id", "session_id", "doc_id", "position", "click"]
    frame = pd.DataFrame(
        rows, columns=[*names, "propensity", "randomised", "timestamp", "device"]
    ).sample(frac=1, random_state=3, ignore_index=True)
    if strings:
        frame["query_id"] = "query " + frame["query_id"].astype(str)
        frame["session_id"] = "s" + frame["session_id"].astype(str)
        frame["doc_id"] = "📄" + frame["doc_id"].astype(str)
    return frame


def rows_of(log):
    return pd.concat([pd.DataFrame(b) for b in event_blocks(log)], ignore_index=True)


def test_log_of_a_small_frame():
    log = ClickLog.from_frame(events())
    assert log.query_ids.tolist() == ["q1", "q2"]
    assert log.doc_ids.tolist() == [10, 11, 20, 21]
    assert log.doc_offsets.tolist() == [0, 2, 4]
    assert log.session_ids.tolist() == [5, 7, 9]  # sorted, as is all
    assert log.session_ranking.tolist() == [0, 1, 1]
    assert log.ranking_query.tolist() == [1, 0]
    assert log.ranking_docs.tolist() == [2, 3, 0, 1]
    assert log.ranking_positions.tolist() == [1, 2, 1, 3]
    assert log.session_clicks.tolist() == [0, 1, 2]
    assert log.clicks.tolist() == [1, 0, 1]
    assert log.designs == ("",)


@pytest.mark.parametrize("strings", [False, True])
def test_rows_come_back_as_they_were(strings):
    frame = random_events(np.random.default_rng(0), strings=strings)
    log = ClickLog.from_frame(frame, contexts=["device"])
    order = ["query_id", "session_id", "position"]
    expected = frame.sort_values(order, ignore_index=True)
    expected["timestamp"] = pd.to_datetime(expected["timestamp"], unit="us")
    found = rows_of(log).sort_values(order, ignore_index=True)
    pd.testing.assert_frame_equal(found[frame.columns], expected, check_dtype=False)
    sessions = frame[["session_id", "query_id"]].drop_duplicates()
    sessions = sessions.sort_values(["session_id", "query_id"])
    assert log.session_ids.tolist() == sessions["session_id"].tolist()


def test_equal_rankings_are_stored_once():
    frame = random_events(np.random.default_rng(1))
    log = ClickLog.from_frame(frame)
    shown = frame.sort_values("position").groupby(["query_id", "session_id"])
    distinct = {
        (query, *zip(g.doc_id, g.position, g.randomised, g.propensity, strict=True))
        for (query, _), g in shown
    }
    assert log.rankings == len(distinct) < log.sessions


def test_every_kind_of_frame_gives_the_same_log():
    frame = random_events(np.random.default_rng(2), strings=True)
    log = ClickLog.from_frame(frame, contexts=["device"])
    polars = pl.from_pandas(frame)
    connection = duckdb.connect()
    connection.register("events", frame)
    for other in (
        polars,
        polars.lazy(),
        polars.to_arrow(),
        connection.table("events"),
        {name: frame[name].to_numpy() for name in frame},
        polars.with_columns(pl.col("doc_id").cast(pl.Categorical)),
    ):
        found = ClickLog.from_frame(other, contexts=["device"])
        for name in ("query_ids", "doc_ids", "ranking_docs", "session_ids", "clicks"):
            assert np.array_equal(getattr(found, name), getattr(log, name))
        assert found.equals(log)


def test_pandas_is_not_needed(tmp_path):
    script = f"""
        import sys

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "pandas":
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Refuse())
        import polars
        from prsrank.logs.click_log import ClickLog
        from prsrank.logs.click_log_files import write_compact, write_events
        from prsrank.logs.reading import read_click_log
        log = ClickLog.from_frame(polars.DataFrame({{
            "query_id": ["a", "a"], "session_id": ["x", "x"], "doc_id": [1, 2],
            "position": [1, 2], "click": [True, False], "device": ["phone", "phone"]}}),
            contexts=["device"])
        write_events(log, r"{tmp_path}/log.parquet")
        write_compact(log, r"{tmp_path}/log")
        assert read_click_log(r"{tmp_path}/log.parquet").equals(log)
        assert read_click_log(r"{tmp_path}/log").equals(log)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


def test_a_session_is_a_pair_of_query_and_session_id():
    log = ClickLog.from_frame(events(session_id=1, position=[1, 4, 1, 2, 2, 3], doc_id=range(6)))
    assert log.sessions == 2
    assert log.session_ids.tolist() == [1, 1]


def test_sessions_numbered_from_0_need_no_ids():
    assert ClickLog.from_frame(events(session_id=[0, 1, 1, 0, 2, 2])).session_ids is None


def test_session_time_is_the_earliest_of_its_rows():
    times = pd.to_datetime(
        ["2026-01-02", "2026-01-03", "2026-01-01", "2026-01-04", "2026-01-01", "2027-01-01"]
    )
    log = ClickLog.from_frame(events(timestamp=times))
    expected = pd.to_datetime(["2026-01-02", "2026-01-01", "2026-01-01"])
    assert log.session_times.tolist() == expected.as_unit("us").astype("int64").tolist()


def test_randomised_true_means_uniform():
    log = ClickLog.from_frame(events(randomised=[True, False, False, True, False, False]))
    assert log.designs == ("", "uniform")
    assert log.ranking_design.tolist() == [1, 0]


def test_missing_design_means_not_randomised():
    log = ClickLog.from_frame(events(randomised=["uniform", None, None, "uniform", None, None]))
    assert log.designs == ("", "uniform")
    assert log.ranking_design.tolist() == [1, 0]


def test_missing_context_becomes_empty():
    log = ClickLog.from_frame(
        events(device=["tv", None, None, "tv", "pc", "pc"]), contexts=["device"]
    )
    assert log.contexts["device"].values == ("", "pc", "tv")
    assert log.contexts["device"].codes.tolist() == [2, 0, 1]


def test_a_context_column_with_quotes_and_braces_in_its_name():
    name = 'de"vice {0}'
    log = ClickLog.from_frame(events(**{name: "x"}), contexts=[name])
    assert log.contexts[name].values == ("x",)


def test_long_sessions_are_sorted():
    rng = np.random.default_rng(4)
    position = rng.permutation(700) + 1
    log = ClickLog.from_frame(
        {
            "query_id": np.zeros(700, int),
            "session_id": np.zeros(700, int),
            "doc_id": position * 2,
            "position": position,
            "click": position % 5 == 0,
        }
    )
    assert log.ranking_positions.tolist() == list(range(1, 701))
    assert log.doc_ids[log.ranking_docs].tolist() == list(range(2, 1402, 2))
    assert log.clicks.tolist() == list(range(4, 700, 5))


def test_blocks_hold_whole_sessions_and_all_rows():
    log = ClickLog.from_frame(random_events(np.random.default_rng(5)), contexts=["device"])
    whole = rows_of(log)
    blocks = [pd.DataFrame(block) for block in event_blocks(log, rows=50)]
    assert len(blocks) > 5
    assert max(map(len, blocks)) <= 50
    pd.testing.assert_frame_equal(pd.concat(blocks, ignore_index=True), whole)


BAD = {
    "missing column": (events().drop(columns="doc_id"), r"no column 'doc_id'; it has query_id"),
    "renamed column": (events().rename(columns={"position": "Position"}), "mean 'Position'"),
    "null id": (events(query_id=["q2", None, "q1", "q2", "q1", "q1"]), "query_id is missing .null. in 1 of 6"),
    "null position": (events(position=[1, 3, None, 2, 1, 3]), "position is missing .* session 7 of query q1"),
    "duplicate position": (events(position=[1, 3, 3, 2, 1, 3]), "position 3 twice in session 7 of query q1"),
    "same doc twice": (events(doc_id=[20, 10, 10, 21, 10, 11]), "doc 10 twice in session 7 of query q1"),
    "position 0": (events(position=[0, 2, 0, 1, 0, 2]), "position 0, but positions start at 1 .add 1.* in 3 of 6 rows"),
    "negative position": (events(position=[1, 3, -1, 2, 1, 3]), "position -1, .* session 7 of query q1"),
    "huge position": (events(position=[1, 3, 10**9, 2, 1, 3]), "position 1000000000 is above 1,000,000"),
    "position beyond 64 bits": (events(position=[1.0, 3, 1e300, 2, 1, 3]), "above 1,000,000"),
    "fractional position": (events(position=[1, 3, 1.5, 2, 1, 3]), "position 1.5 is not a whole number in 1 of 6"),
    "text position": (events(position=list("131213")), "'position' must hold whole numbers, not VARCHAR"),
    "click 2": (events(click=[0, 2, 0, 0, 1, 1]), "click 2, but a click is 0 or 1, in 1 of 6 rows.* doc 11"),
    "text click": (events(click=list("yynnyn")), "'click' must hold 0 and 1, or booleans"),
    "mixed ids": (events(doc_id=[20, "x", 10, 21, 10, 11]), "'doc_id' mixes types: int and str"),
    "mixed positions": (events(position=[1, "3", 1, 2, 1, 3]), "'position' mixes types"),
    "float ids": (events(query_id=0.5), "'query_id' must hold integers or strings, not DOUBLE"),
    "date ids": (events(doc_id=pd.Timestamp("2026-01-01")), "'doc_id' must hold integers or strings"),
    "no rows": (events().iloc[:0].astype({"query_id": int}), "the log is empty"),
    "no non-clicks": (events(click=1), "every one of the 6 rows is a click: .* must be kept"),
    "negative propensity": (events(propensity=[1, 0.5, -1, 1, 1, 0.5]), "propensity -1.0 is not a number from 0 to 1 in 1 of 6 rows, first for doc 10"),
    "propensity NaN": (events(propensity=[1, 0.5, np.nan, 1, 1, 0.5]), "propensity is missing"),
    "infinite propensity": (events(propensity=[1, 0.5, np.inf, 1, 1, 0.5]), "propensity inf"),
    "click at propensity 0": (events(propensity=[1, 0, 1, 1, 1, 0.0]), "propensity is 0, but the doc was clicked in 2 of 6 rows, first for doc 11"),
    "unknown design": (events(randomised="shuffle"), "randomised is 'shuffle'"),
    "two designs": (events(randomised=["", "", "uniform", "", "", ""]), "randomised is both '' and 'uniform' in session 7 of query q1"),
    "number as design": (events(randomised=3), "'randomised' must hold booleans"),
    "text as time": (events(timestamp="now"), "'timestamp' must hold times"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_log(name):
    frame, message = BAD[name]
    with pytest.raises(InputError, match=message) as raised:
        ClickLog.from_frame(frame)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", sorted(set(BAD) - {"mixed ids", "mixed positions", "no rows"}))
def test_bad_log_from_another_frame(name):
    frame, message = BAD[name]
    with pytest.raises(InputError, match=message):
        ClickLog.from_frame(pl.from_pandas(frame))


def test_bad_contexts():
    with pytest.raises(InputError, match="no column 'devise'; did you mean 'device'"):
        ClickLog.from_frame(events(device="x"), contexts=["devise"])
    with pytest.raises(InputError, match="device is both '1' and '2' in session 7 of query q1"):
        ClickLog.from_frame(events(device=[1, 1, 2, 1, 1, 1]), contexts=["device"])
    with pytest.raises(InputError, match="'click' has a meaning of its own"):
        ClickLog.from_frame(events(), contexts=["click"])


def test_not_a_frame():
    with pytest.raises(InputError, match="must be a pandas, Polars, Arrow or DuckDB frame"):
        ClickLog.from_frame(3)
    with pytest.raises(InputError, match="differ in length"):
        ClickLog.from_frame({"query_id": np.arange(2), "doc_id": np.arange(3)})
    with pytest.raises(InputError, match="no column 'query_id'"):
        ClickLog.from_frame({})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"click": 0}, "no clicks in 3 sessions"),
        ({"position": 4, "session_id": range(6)}, r"one position only \(4\)"),
        ({"propensity": [1.5, 1, 1, 1, 1, 1]}, "propensity 1.5 at position 1 .* above 1"),
    ],
)
def test_warnings(columns, message):
    with pytest.warns(DataWarning, match=message):
        ClickLog.from_frame(events(**columns))


def test_a_good_log_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClickLog.from_frame(events(propensity=1.0))


def test_a_relation_in_the_users_connection_is_left_alone():
    connection = duckdb.connect()
    connection.register("frame", events())
    before = connection.sql("SHOW TABLES").fetchall()
    ClickLog.from_frame(connection.sql("SELECT * FROM frame"))
    assert connection.sql("SHOW TABLES").fetchall() == before


@pytest.mark.parametrize("design", ["", "uniform", "top-k:5", "swap:1:2"])
def test_designs(design):
    check_design(design)


@pytest.mark.parametrize("design", ["top-k", "top-k:0", "top-k:x", "swap:1", "uniform:3", "x"])
def test_unknown_designs(design):
    with pytest.raises(InputError, match="but a design is"):
        check_design(design)


def test_a_context_with_a_value_for_every_session_is_refused():
    many = 1_001
    columns = {name: np.repeat(np.arange(many), 2) for name in ("query_id", "session_id")}
    columns |= {"doc_id": np.tile([1, 2], many), "position": np.tile([1, 2], many)}
    columns |= {"click": np.tile([0, 1], many), "device": columns["session_id"].astype(str)}
    with pytest.raises(InputError, match=r"'device' has more than 1,000 values.* is it an id"):
        ClickLog.from_frame(columns, contexts=["device"])
    columns["device"][:2] = "1"
    assert len(ClickLog.from_frame(columns, contexts=["device"]).contexts["device"].values) == 1_000
