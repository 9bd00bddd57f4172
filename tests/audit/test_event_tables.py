"""What the tables of an audit hold, and how often it reads the log."""

from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pytest

from prsrank.audit import audit
from prsrank.audit.event_tables import open_tables
from prsrank.logs.event_source import EVENTS, LogSource, open_frame
from prsrank.logs.row_rules import MAX_POSITION
from prsrank.propensity.identification import PLACES, MovedDocs


@pytest.fixture
def messy():
    """A log with repeated lists, docs and positions shown twice, gaps, and long lists."""
    rng = np.random.default_rng(5)
    rows = []
    for session in range(400):
        query, start = session % 7, int(rng.integers(3))
        length = 90 if query == 6 else 8
        docs = (np.arange(length) + start) % (length + 2)
        places = np.arange(1, length + 1) + (start == 2) * (np.arange(length) > 4)
        if session % 5 == 0:
            docs[2] = docs[1]
        if session % 11 == 0:
            places[3] = places[2]
        shuffled = bool(session % 3)
        for doc, place in zip(docs, places, strict=True):
            rows.append((query, session, int(doc), int(place), rng.random() < 0.2, shuffled))
    names = ("query_id", "session_id", "doc_id", "position", "click", "randomised")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


@pytest.fixture(params=["32 bits", "64 bits"])
def tables(messy, request, monkeypatch):
    if request.param == "64 bits":
        monkeypatch.setattr("prsrank.audit.event_tables._WIDE", 1)
    with (
        open_frame(messy) as source,
        open_tables(source, contexts=[], features=[], base=1) as found,
    ):
        yield found


def test_cells_add_up_the_rows_of_the_log(messy, tables):
    rows = list(zip(*messy.values(), strict=True))
    shown = Counter((q, d, k) for q, _, d, k, _, _ in rows)
    clicked = Counter((q, d, k) for q, _, d, k, c, _ in rows if c)
    ordinary = Counter((q, d, k) for q, _, d, k, _, shuffled in rows if not shuffled)
    found = tables.rows("SELECT q, d, k, shown, clicked, ordinary FROM {cells}")
    assert {row[:3]: row[3:] for row in found} == {
        cell: (count, clicked[cell], ordinary[cell]) for cell, count in shown.items()
    }


def test_lists_tell_docs_and_positions_apart(messy, tables):
    sessions = defaultdict(list)
    for q, s, d, k, _, _ in zip(*messy.values(), strict=True):
        sessions[q, s].append((d, k))
    lists = defaultdict(list)
    for (q, s), rows in sessions.items():
        lists[q, tuple(sorted(rows))].append(s)
    found = tables.rows("SELECT q, s, sessions, docs, positions, n FROM {lists}")
    assert sorted(found) == sorted(
        (q, min(of), len(of), len({d for d, _ in rows}), len({k for _, k in rows}), len(rows))
        for (q, rows), of in lists.items()
    )
    assert any(docs < n for *_, docs, _, n in found)
    assert any(places < n for *_, places, n in found)


def test_pairs_of_positions_are_those_of_each_doc(messy, tables):
    places, hits = defaultdict(set), defaultdict(set)
    for q, _, d, k, c, _ in zip(*messy.values(), strict=True):
        places[q, d].add(k)
        hits[q, d] |= {k} if c else set()
    pairs, clicked = Counter(), defaultdict(set)
    for doc, at in places.items():
        for pair in combinations(sorted(k for k in at if k <= PLACES), 2):
            pairs[pair] += bool(hits[doc])
            clicked[pair] |= hits[doc] & set(pair)
    moved = MovedDocs(tables)
    assert {row[:2]: row[2:] for row in moved.pairs} == {
        pair: (count, len(clicked[pair]) == 2) for pair, count in pairs.items()
    }
    several = [doc for doc, at in places.items() if len(at) > 1]
    assert moved.docs == sum(sum(k <= PLACES for k in places[doc]) > 1 for doc in several)
    assert moved.queries == {
        k: len({q for q, d in several if k in hits[q, d]})
        for k in set().union(*(hits[doc] for doc in several))
    }


@pytest.mark.parametrize(("more", "passes"), [(False, 3), (True, 9)])
def test_the_log_is_read_few_times(more, passes, simulate, monkeypatch):
    events = simulate(design=lambda rng: "uniform" if rng.random() < 0.2 else "")
    time = 1_700_000_000_000_000 + events["session_id"] * 3_600_000_000
    events |= {"timestamp": time, "client_id": events["session_id"] % 100}
    if more:
        events |= {"x": events["doc_id"] * 0.5, "device": (events["session_id"] % 2).astype(str)}
    else:
        del events["randomised"]
    read = []
    query = LogSource.query
    monkeypatch.setattr(
        LogSource, "query", lambda self, sql: (read.append(sql), query(self, sql))[1]
    )
    with open_frame(events) as source:
        found = audit(source, contexts=["device"] * more, features=["x"] * more)
    assert not found.errors
    assert sum(sql.count(EVENTS) for sql in read) == passes


def test_counts_of_32_bits_times_positions_take_more():
    """3,000 ordinary impressions at position a million: 3e9."""
    sessions = np.arange(9000)
    events = {
        "query_id": np.ones(9000, int),
        "session_id": sessions,
        "doc_id": sessions % 2,
        "position": np.full(9000, MAX_POSITION) - sessions % 2,
        "click": sessions % 10 == 0,
        "randomised": sessions % 3 == 0,
        "x": sessions % 2,
    }
    with open_frame(events) as source:
        found = audit(source, features=["x"])
    assert found.counts["positions"] == MAX_POSITION
    assert [at.shown for at in found.positions] == [4500, 4500]


def test_features_in_blocks_are_audited_as_all_at_once(simulate, monkeypatch):
    events = simulate()
    names = [f"x{i}" for i in range(7)]
    for i, name in enumerate(names):
        events[name] = (events["doc_id"] * (i + 1)) % 5 * 1.0
    events["x3"] = events["click"] * 1.0
    lengths = []
    query = LogSource.query

    def audited(block):
        monkeypatch.setattr("prsrank.audit.event_tables.FEATURE_BLOCK", block)
        lengths.clear()
        with open_frame(events) as source:
            found = audit(source, features=names).findings
        return found, max(lengths)

    monkeypatch.setattr(
        LogSource, "query", lambda self, sql: (lengths.append(len(sql)), query(self, sql))[1]
    )
    whole, longest = audited(100)
    blocks, shorter = audited(2)
    assert blocks == whole
    assert any(one.code.startswith("feature-") for one in whole)
    assert shorter < longest
