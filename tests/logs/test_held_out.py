"""Held-out parts share no list with the part that is learned from."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.features import covered_sessions, known_lists
from prsrank.logs.held_out import hold_out
from prsrank.logs.split import parse_hold_out


def timed_log(queries, *, strings=False):
    """One session of two docs per entry, a second apart."""
    ids = np.repeat(np.array([f"q{q}" for q in queries] if strings else queries), 2)
    sessions = np.repeat(np.arange(len(queries)), 2)
    return ClickLog.from_frame(
        {
            "query_id": ids, "session_id": sessions, "doc_id": np.tile([0, 1], len(queries)),
            "position": np.tile([1, 2], len(queries)),
            "click": np.tile([True, False], len(queries)), "timestamp": sessions * 1_000_000,
        }
    )  # fmt: skip


@pytest.mark.parametrize("strings", [False, True])
def test_a_cut_in_time_leaks_no_list(strings):
    rng = np.random.default_rng(1)
    queries = np.sort(rng.integers(0, 60, 400) + np.arange(400) // 8)
    queries[rng.integers(0, 400, 80)] = rng.integers(0, 100, 80)
    log = timed_log(queries, strings=strings)
    parts = hold_out(log, by="time", share=0.25)
    early, late = queries[:300], queries[300:]
    shared = np.intersect1d(early, late)
    assert len(shared) > 5  # a plain cut would leak these
    assert parts.shared_queries == len(shared)
    assert not set(parts.training.query_ids.tolist()) & set(parts.held_out.query_ids.tolist())
    assert parts.training.session_times.max() < parts.held_out.session_times.min()
    assert parts.held_out.sessions == len(late)
    assert parts.training.sessions == np.sum(~np.isin(early, shared))
    assert parts.dropped_sessions == np.isin(early, shared).sum()


def test_a_cut_between_queries_drops_nothing():
    parts = hold_out(timed_log([1, 1, 1, 2, 3]), by="time", share=0.4)
    assert (parts.training.sessions, parts.held_out.sessions) == (3, 2)
    assert (parts.shared_queries, parts.dropped_sessions) == (0, 0)


def test_by_query_all_sessions_stay():
    log = timed_log([1, 2, 3, 4, 5] * 4)
    parts = hold_out(log, by="query", share=0.4, seed=3)
    assert parts.held_out.queries == 2
    assert parts.training.sessions + parts.held_out.sessions == 20
    assert not set(parts.training.query_ids.tolist()) & set(parts.held_out.query_ids.tolist())


@pytest.mark.parametrize("strings", [False, True])
def test_what_is_held_out_follows_from_seed_and_id_alone(strings):
    def bucket(query):
        head = hashlib.md5(f"3:{query}".encode(), usedforsecurity=False).hexdigest()[:8]
        return int(head, 16) % 10_000

    queries = list(range(40))
    log = timed_log(queries, strings=strings)
    ids = log.query_ids.tolist()
    wanted = set(sorted(ids, key=bucket)[:8])
    assert bucket(sorted(ids, key=bucket)[7]) < bucket(sorted(ids, key=bucket)[8])
    assert set(hold_out(log, share=0.2, seed=3).held_out.query_ids.tolist()) == wanted
    assert set(log.split_by_query(0.2, seed=3)[0].query_ids.tolist()) == wanted
    turned = timed_log(queries[::-1], strings=strings)
    assert set(hold_out(turned, share=0.2, seed=3).held_out.query_ids.tolist()) == wanted


def test_the_randomised_sessions_are_held_out_and_their_queries_with_them():
    log = timed_log([1, 2, 1, 3])
    designs = np.array([0, 0, 1])[log.ranking_query]  # query 3
    marked = replace(log, ranking_design=designs.astype(np.int32), designs=("", "uniform"))
    parts = hold_out(marked, by="randomised")
    assert parts.held_out.query_ids.tolist() == [3]
    assert parts.training.query_ids.tolist() == [1, 2]
    with pytest.raises(InputError, match="no session is marked as randomised"):
        hold_out(log, by="randomised")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "user"}, "hold out by query, time or randomised, not 'user'"),
        ({"share": 1.0}, "between 0 and 1"),
        ({"by": "time", "share": 0.5}, "split by query"),
    ],
)
def test_hold_out_refuses(options, message):
    with pytest.raises(InputError, match=message):
        hold_out(timed_log([1, 2, 1, 2]), **options)


@pytest.mark.parametrize("text", ["user:0.2", "time:2", "query:", "time:x", ""])
def test_parse_refuses(text):
    with pytest.raises(InputError, match="query:SHARE or time:SHARE"):
        parse_hold_out(text)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("strings", [False, True])
def test_covered_sessions_by_a_plain_loop(named, strings):
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, 5, 12)
    names = np.concatenate([rng.permutation(6)[:n] for n in lengths]) if named else None
    query_ids = np.arange(12) * 2
    data = RankingDataset(
        np.zeros((lengths.sum(), 1)), np.concatenate([[0], np.cumsum(lengths)]),
        query_ids=query_ids.astype(str) if strings else query_ids,
        doc_ids=names.astype(str) if named and strings else names,
    )  # fmt: skip
    rows = []
    for session in range(60):
        for place, doc in enumerate(rng.permutation(6)[: rng.integers(1, 3)]):
            rows.append((session % 30, session, doc, place + 1, place == 0 and session % 2 == 0))
    columns = ("query_id", "session_id", "doc_id", "position", "click")
    log = ClickLog.from_frame(
        {n: np.array(c) for n, c in zip(columns, zip(*rows, strict=True), strict=True)}
    )
    docs = {
        (int(data.query_ids[q]), int(data.doc_names[row]))
        for q in range(12)
        for row in range(data.offsets[q], data.offsets[q + 1])
    }
    expected = [all((r[0], r[2]) in docs for r in rows if r[1] == s) for s in range(60)]
    assert 0 < sum(expected) < 60
    assert covered_sessions(log, data).tolist() == expected
    kept = log.select(covered_sessions(log, data))
    kept.doc_rows(data)
    assert covered_sessions(kept, data).all()
    assert known_lists(kept, data).query_ids.astype(int).tolist() == sorted(
        kept.query_ids.astype(int).tolist()
    )
