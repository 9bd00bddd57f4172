"""A log in which one id is long says what it says with a short one, and takes no more room."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from prsrank.data.rankings import write_ranking
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_files import read_compact, write_compact, write_events
from prsrank.logs.click_log_parts import merge
from prsrank.logs.features import covered_sessions, lists_of_queries
from prsrank.logs.held_out import SessionMarks
from prsrank.logs.pieces import LocalPieces
from prsrank.logs.reading import read_click_log, read_log
from prsrank.logs.split import Split

SHORT, LONG = "document-0000000005", "https://example.org/?é=" + "d" * 9_000
QUERY, LONG_QUERY = "query-0", "long query " * 800
SESSION, LONG_SESSION = "session-0", "session " * 1_000


def events(short=False, *, sessions=4_000, docs=5):
    """Return rows of 2,000 queries; one doc of many, one query and one session have long ids."""
    session = np.repeat(np.arange(sessions), docs)
    position = np.tile(np.arange(1, docs + 1), sessions)
    doc = (session % 2_000) * docs + (position + session) % docs
    rows = pd.DataFrame(
        {
            "query_id": [f"query-{i}" for i in session % 2_000],
            "session_id": [f"session-{i}" for i in session],
            "doc_id": [f"document-{i:010d}" for i in doc],
            "position": position,
            "click": (np.random.default_rng(0).random(len(doc)) < 1 / position).astype(int),
            "x": doc % 7,
        }
    )
    return rows if short else rows.replace({SHORT: LONG, QUERY: LONG_QUERY, SESSION: LONG_SESSION})


def shortened(frame):
    """Return rows with the short ids, in the order of sessions and positions."""
    short = frame.replace({LONG: SHORT, LONG_QUERY: QUERY, LONG_SESSION: SESSION})
    return short.sort_values(["session_id", "position"], ignore_index=True)


@pytest.fixture(params=["parquet", "csv"])
def file(request, tmp_path):
    path = tmp_path / f"log.{request.param}"
    getattr(events(), f"to_{request.param}")(path, index=False)
    return path


def test_reading_takes_what_the_ids_hold(file):
    expected = shortened(events(short=True)).drop(columns="x")
    tracemalloc.start()
    log = read_click_log(file)
    # side by side the docs alone would take 360 MB
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    found = shortened(log.to_frame()).astype({"click": int, "position": int})
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_the_compact_form_and_back(file, tmp_path):
    log = read_click_log(file)
    tracemalloc.start()
    write_compact(log, tmp_path / "compact")
    compact = read_compact(tmp_path / "compact")
    write_events(compact, tmp_path / "events.parquet")
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert compact.equals(log)
    assert read_click_log(tmp_path / "events.parquet").equals(log)


@pytest.mark.parametrize("columns", [pd.DataFrame, lambda rows: rows.to_dict("list")])
def test_frames_and_lists(columns):
    rows = events()
    tracemalloc.start()
    log = ClickLog.from_frame(columns(rows))
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert set(log.doc_ids.tolist()) == set(rows["doc_id"])


def test_parts_with_and_without_the_long_ids_meet():
    log = ClickLog.from_frame(events())
    order = np.argsort(log.query_ids[log.ranking_query][log.session_ranking], kind="stable")
    parts = [log.select(half) for half in np.array_split(order, 2)]
    assert sorted(part.query_ids.dtype.kind for part in parts) == ["O", "U"]
    assert merge(parts).equals(log)
    marks = SessionMarks.of(LocalPieces(parts), Split("query", 0.3))
    for part in parts:
        buckets = Split("query", 0.3).buckets(part.query_ids)
        held = (buckets < marks.held_limit)[part.ranking_query][part.session_ranking]
        assert np.array_equal(marks.held_out(part), held)


def test_docs_are_found_in_lists_with_features(tmp_path):
    log, lists = read_log(events(), mapping=None, features=events()[["query_id", "doc_id", "x"]])
    rows = log.doc_rows(lists)
    assert np.array_equal(lists.doc_ids[rows], log.doc_ids)
    short = lists_of_queries(np.array(["query-2", "query-4"]), lists)
    assert short.doc_ids.dtype.kind == "U"
    assert covered_sessions(log, short).sum() == 4
    write_ranking(lists, np.arange(lists.docs), tmp_path / "ranking.parquet")
    ranking = pd.read_parquet(tmp_path / "ranking.parquet")
    assert sorted(ranking["doc_id"]) == sorted(log.doc_ids)
