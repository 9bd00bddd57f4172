"""Parts of a log by the hash of its queries."""
# ruff: noqa: S608 -- the paths in the queries are the tests' own

from hashlib import md5

import duckdb
import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.logs.log_split import HALF, LogSplit
from prsrank.spark.local import LocalEngine

LOCAL = LocalEngine(threads=1)


def bucket(query):
    return int(md5(str(query).encode(), usedforsecurity=False).hexdigest()[:8], 16) % 10_000


def queries_of(events):
    return {row[0] for row in events.relation.project("query_id").distinct().fetchall()}


def test_parts_are_ranges_of_the_hash(log_file, log):
    with LOCAL.open_log(log_file) as events:
        parts = LOCAL.split(events, LogSplit(0.25, 0.4))
        found = {n: queries_of(getattr(parts, n)) for n in ("held_out", "validation", "train")}
        together = queries_of(parts.learning)
    queries = log.query_ids.tolist()
    assert found["held_out"] == {q for q in queries if bucket(q) < 2500}
    assert found["validation"] == {q for q in queries if 2500 <= bucket(q) < 2500 + 3000}
    assert found["train"] == {q for q in queries if bucket(q) >= 5500}
    assert together == found["train"] | found["validation"]
    assert parts.halves is None
    assert parts.dropped_sessions == 0
    query_of_session = log.query_ids[log.ranking_query[log.session_ranking]]
    for name, count in parts.counts.items():
        inside = np.isin(query_of_session, list(found[name.replace(" ", "_")]))
        assert count["sessions"] == inside.sum()
        assert count["queries"] == len(found[name.replace(" ", "_")])
        assert count["clicks"] == log.session_clicks[inside].sum()


def test_text_ids_have_buckets_too(log_file, tmp_path):
    path = tmp_path / "log.parquet"
    duckdb.sql(
        f"COPY (SELECT * REPLACE ('q ' || query_id AS query_id) FROM '{log_file}') TO '{path}'"
    )
    with LOCAL.open_log(path) as events:
        held_out = queries_of(LOCAL.split(events, LogSplit(0.3)).held_out)
        assert held_out == {q for q in queries_of(events) if bucket(q) < 3000}


def test_randomised_sessions_share_no_query(half_randomised):
    with LOCAL.open_log(half_randomised) as events:
        parts = LOCAL.split(events, LogSplit(None, 0.2))
        held_out = queries_of(parts.held_out)
        marked = events.relation.filter("randomised <> ''").project("query_id").fetchall()
        assert held_out == {query for (query,) in marked}
        assert len(held_out) > 30
        assert not held_out & queries_of(parts.learning)
        one, two = (queries_of(half) for half in parts.halves)
        assert one == {q for q in held_out if bucket(q) < 5000}
        assert two == held_out - one
        assert parts.held_out.contexts == (HALF,)
        shared = f"query_id IN ({', '.join(map(str, held_out))})"
        rows = events.relation.filter(shared).aggregate(
            "count(DISTINCT session_id) FILTER (randomised = ''), "
            "count(DISTINCT session_id) FILTER (randomised <> '')"
        )
        assert rows.fetchall() == [(parts.dropped_sessions, parts.counts["held out"]["sessions"])]


def test_what_cannot_be_split(log_file, tmp_path):
    with pytest.raises(InputError, match="held_out must be between 0 and 1, not 1"):
        LogSplit(1.0)
    no_clicks = pytest.raises(InputError, match="the held out part has no clicks")
    with LOCAL.open_log(log_file) as events, no_clicks:
        LOCAL.split(events, LogSplit(0.0001))
    path = tmp_path / "marked.parquet"
    duckdb.sql(f"COPY (SELECT * FROM '{log_file}' WHERE randomised <> '') TO '{path}'")
    every = pytest.raises(InputError, match="every query has randomised sessions")
    with LOCAL.open_log(path) as events, every:
        LOCAL.split(events, LogSplit(None))
    path = tmp_path / "plain.parquet"
    duckdb.sql(f"COPY (SELECT * EXCLUDE (randomised) FROM '{log_file}') TO '{path}'")
    with LOCAL.open_log(path) as events, pytest.raises(InputError, match="no session is marked"):
        LOCAL.split(events, LogSplit(None))
