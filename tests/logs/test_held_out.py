"""Held-out parts share no list with the part that is learned from."""

import numpy as np
import pytest

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.coverage import covered_sessions, known_lists
from prsrank.logs.held_out import hold_out, parse_hold_out


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
@pytest.mark.parametrize("keep", ["held-out", "training"])
def test_a_cut_in_time_leaks_no_list(keep, strings):
    rng = np.random.default_rng(1)
    queries = np.sort(rng.integers(0, 60, 400) + np.arange(400) // 8)
    queries[rng.integers(0, 400, 80)] = rng.integers(0, 100, 80)
    log = timed_log(queries, strings=strings)
    parts = hold_out(log, by="time", share=0.25, keep=keep)
    early, late = queries[:300], queries[300:]
    shared = np.intersect1d(early, late)
    assert len(shared) > 5  # a plain cut would leak these
    assert parts.shared_queries == len(shared)
    assert not set(parts.training.query_ids.tolist()) & set(parts.held_out.query_ids.tolist())
    assert parts.training.session_times.max() < parts.held_out.session_times.min()
    kept = (early, late) if keep == "training" else (late, early)
    whole, cut = (
        (parts.training, parts.held_out) if keep == "training" else (parts.held_out, parts.training)
    )
    assert whole.sessions == len(kept[0])
    assert cut.sessions == np.sum(~np.isin(kept[1], shared))
    assert parts.dropped_sessions == np.isin(kept[1], shared).sum()


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


def tens(ids):
    """Put queries 10 to 19 in one group, 20 to 29 in another, ..."""
    return ids // 10


@pytest.mark.parametrize(
    "options", [{}, {"by": "time"}, {"by": "time", "keep": "training"}, {"share": 0.5}]
)
def test_no_group_of_queries_is_in_two_parts(options):
    rng = np.random.default_rng(5)
    queries = np.sort(rng.integers(0, 400, 900)) + rng.integers(0, 15, 900)
    log = timed_log(queries)
    plain = hold_out(log, **options)
    assert len(np.intersect1d(tens(plain.training.query_ids), tens(plain.held_out.query_ids)))
    parts = hold_out(log, group_of=tens, **options)
    sides = [set(tens(part.query_ids).tolist()) for part in (parts.training, parts.held_out)]
    assert all(sides)
    assert not sides[0] & sides[1]
    kept = parts.training.sessions + parts.held_out.sessions
    assert kept + parts.dropped_sessions == log.sessions


def test_a_share_of_the_groups_is_held_out_whatever_their_size():
    queries = np.concatenate([np.arange(10), [10, 20, 30, 40]])
    parts = hold_out(timed_log(queries), share=0.4, seed=1, group_of=tens)
    assert len(np.unique(tens(parts.held_out.query_ids))) == 2
    with pytest.raises(InputError, match="a log of 1 queries cannot be split"):
        hold_out(timed_log([1, 2, 3]), group_of=tens)


def test_groups_of_one_query_split_as_queries_do():
    log = timed_log([5, 3, 9, 3, 1, 7, 7, 2])
    for seed in range(5):
        one, other = hold_out(log, seed=seed), hold_out(log, seed=seed, group_of=np.array)
        assert one.held_out.query_ids.tolist() == other.held_out.query_ids.tolist()


def test_groups_on_both_sides_of_a_cut_are_counted_once():
    log = timed_log([10, 11, 50, 12, 13, 60])
    parts = hold_out(log, by="time", share=0.5, group_of=tens)
    assert (parts.shared_queries, parts.dropped_sessions) == (1, 2)
    assert parts.training.query_ids.tolist() == [50]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "user"}, "hold out by one of query, time"),
        ({"share": 1.0}, "between 0 and 1"),
        ({"by": "time", "keep": "both"}, "keep whole one of"),
        ({"by": "time", "share": 0.5}, "split by query"),
        ({"by": "time", "share": 0.5, "keep": "training"}, "split by query"),
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
