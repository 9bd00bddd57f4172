"""UBI: a simulated log written as queries and events comes back as the same pairs."""

import json
from pathlib import Path

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_files import write_events
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import open_events, read_log
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw


def write_ubi(
    log: ClickLog,
    folder: Path,
    *,
    base: int = 1,
    impressions: bool = False,
    kind: str = "jsonl",
    flag: bool = False,
) -> None:
    """Write a log as UBI: a request per session, and its clicks (each twice) as events."""
    queries, events = [], []
    starts = log.click_offsets
    for session in range(log.sessions):
        ranking = log.session_ranking[session]
        slots = slice(*log.ranking_offsets[ranking : ranking + 2])
        docs = [str(doc) for doc in log.doc_ids[log.ranking_docs[slots]]]
        places = log.ranking_positions[slots]
        name = f"request-{session}"
        queries.append(
            {
                "query_id": name,
                "timestamp": f"2026-01-01T00:00:{session % 60:02d}Z",
                "user_query": str(log.query_ids[log.ranking_query[ranking]]),
                "query_response_hit_ids": docs,
                "client_id": f"client-{session % 7}",
                "query_attributes": {"experiment": "none", "randomised": flag and session % 2 == 0},
            }
        )
        clicked = log.clicks[starts[session] : starts[session + 1]]
        shown = range(len(docs)) if impressions else []
        for action, index in [("impression", i) for i in shown] + [
            ("click", i) for i in clicked
        ] * 2:
            events.append(
                {
                    "action_name": action,
                    "query_id": name,
                    "timestamp": "2026-01-01T00:01:00Z",
                    "event_attributes": {
                        "object": {"object_id": docs[index], "object_id_field": "sku"},
                        "position": {"ordinal": int(places[index]) - 1 + base},
                    },
                }
            )
    folder.mkdir(exist_ok=True)
    write_rows(folder, queries, events, kind)


def write_rows(folder: Path, queries: list[dict], events: list[dict], kind: str = "jsonl") -> None:
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(exist_ok=True)
    for name, rows in (("ubi_queries", queries), ("ubi_events", events)):
        if kind == "parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{name}.parquet")
        else:
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{name}.jsonl").write_text(text)


@pytest.fixture(scope="module")
def simulated():
    data = synthetic_dataset("mq2007", 20, seed=2)
    scores = np.random.default_rng(0).normal(size=data.docs)
    return simulate_clicks(data, [scores], PositionBasedModel(), clicks=500, seed=1), data


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("impressions", [False, True])
def test_the_same_pairs_as_by_the_direct_route(simulated, tmp_path, kind, base, impressions):
    log, data = simulated
    write_ubi(log, tmp_path / "ubi", base=base, impressions=impressions, kind=kind)
    with open_events(tmp_path / "ubi") as source:
        assert source.findings["positions_from"] == base
        noticed = {name: count for name, count in source.findings.items() if count}
        assert noticed == ({"positions_from": 1} if base else {})
    read, _ = read_log(tmp_path / "ubi")
    assert (read.sessions, len(read.clicks)) == (log.sessions, len(log.clicks))
    direct = PairSet.from_log(log, data, PowerLaw(1.0), normalise="ndcg")
    by_log = PairSet.from_log(read, data, PowerLaw(1.0), normalise="ndcg")
    write_events(log, tmp_path / "log.parquet")
    events, _ = read_log(tmp_path / "log.parquet")
    by_events = PairSet.from_log(events, data, PowerLaw(1.0), normalise="ndcg")
    assert direct.winners > 100
    for one, other in ((by_log, direct), (by_log, by_events)):
        for name in ("winner_offsets", "winner_row", "weights"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        # sums for the diagnostics: the order of the sessions rounds them differently
        np.testing.assert_allclose(one.totals, other.totals, rtol=1e-12)


def test_designs_contexts_and_clients_come_from_the_query(simulated, tmp_path):
    log, _ = simulated
    write_ubi(log, tmp_path / "ubi", flag=True)
    unknown = LogMapping(contexts=("experiment", "device"))
    with pytest.raises(InputError, match="has a meaning of its own"):
        LogMapping(contexts=("client_id",))
    with open_events(tmp_path / "ubi", mapping=LogMapping(contexts=("experiment",))) as source:
        assert source.total("count(DISTINCT client_id), min(experiment), max(experiment)") == (
            7,
            "none",
            "none",
        )
        designs = source.relation.project("randomised").distinct().order("randomised").fetchall()
        assert designs == [("",), ("uniform",)]
    with (
        pytest.raises(InputError, match="field 'device'"),
        open_events(tmp_path / "ubi", mapping=unknown),
    ):
        pass


def queries(*rows: tuple[str, str, list[str] | None]) -> list[dict]:
    return [
        {
            "query_id": name,
            "user_query": text,
            "timestamp": 1_767_225_600_000 + i,
            "query_response_hit_ids": hits,
        }
        for i, (name, text, hits) in enumerate(rows)
    ]


def event(query: str | None, action: str, doc: str, ordinal: int | None) -> dict:
    place = {} if ordinal is None else {"position": {"ordinal": ordinal}}
    return {
        "query_id": query,
        "action_name": action,
        "timestamp": "2026-01-01",
        "event_attributes": {"object": {"object_id": doc}, **place},
    }


def rows_of(folder: Path, **options) -> tuple[list[tuple], dict[str, int]]:
    with open_events(folder, mapping=LogMapping(**options)) as source:
        columns = "query_id, session_id, doc_id, position, click, weight"
        return sorted(source.rows(columns, limit=100)), dict(source.findings)


def test_what_does_not_fit_is_counted_and_left_out(tmp_path):
    write_rows(
        tmp_path,
        queries(
            ("r1", "🍕", ["a", "b"]), ("r1", "🍕", ["z"]), ("r2", "🍕", []), ("r3", "q", ["a"])
        ),
        [
            event("r1", "click", "b", 2),
            event("r1", "purchase", "b", 2),
            event("r1", "click", "unknown", 9),
            event("r3", "click", "a", 5),
            event("gone", "click", "a", 1),
            event("r1", "hover", "a", 1),
        ],
    )
    rows, findings = rows_of(tmp_path, actions={"click": 1, "purchase": 10})
    assert rows == [
        ("q", "r3", "a", 1, 1, 1.0),
        ("🍕", "r1", "a", 1, 0, 0.0),
        ("🍕", "r1", "b", 2, 1, 10.0),
    ]
    assert findings == {
        "clicks_not_in_list": 1,
        "events_without_query": 1,
        "queries_without_list": 1,
        "repeated_queries": 1,
        "positions_disagree": 1,
        "positions_from": 1,
    }


def test_impressions_make_the_list_where_there_are_no_hits_and_keep_gaps(tmp_path):
    write_rows(
        tmp_path,
        queries(("r1", "q", None), ("r2", "q", ["a", "b"])),
        [
            event("r1", "impression", "a", 0),
            event("r1", "impression", "b", 2),
            event("r1", "click", "b", 2),
            event("r2", "click", "b", 1),
        ],
    )
    rows, findings = rows_of(tmp_path)
    assert findings["positions_from"] == 0
    assert [(r[1], r[2], r[3], r[4]) for r in rows] == [
        ("r1", "a", 1, 0),
        ("r1", "b", 3, 1),
        ("r2", "a", 1, 0),
        ("r2", "b", 2, 1),
    ]
    assert rows_of(tmp_path, positions_from=1)[0][1][3] == 2


def test_every_request_can_be_a_query_of_its_own(tmp_path):
    write_rows(
        tmp_path, queries(("r1", "q", ["a"]), ("r2", "q", ["a"])), [event("r1", "click", "a", 1)]
    )
    rows, _ = rows_of(tmp_path, columns={"query_id": "query_id"})
    assert [row[0] for row in rows] == ["r1", "r2"]


def test_missing_fields_are_named(tmp_path):
    write_rows(tmp_path, [{"query_id": "r"}], [event("r", "click", "a", 1)])
    with pytest.raises(InputError, match="ubi_queries has no field 'query_response_hit_ids'"):
        rows_of(tmp_path)
    write_rows(tmp_path, queries(("r", "q", ["a"])), [{"query_id": "r", "action_name": "click"}])
    with pytest.raises(InputError, match="ubi_events has no field 'event_attributes'"):
        rows_of(tmp_path)
    write_rows(tmp_path, queries(("r", "q", ["a"])), [event("r", "click", "a", 1)])
    with pytest.raises(InputError, match="UBI has no features"):
        rows_of(tmp_path, features=("price",))
    with pytest.raises(InputError, match="field 'device'"):
        rows_of(tmp_path, contexts=("device",))
    (tmp_path / "ubi_events.jsonl").write_text('{"query_id": "r", "acti')
    with pytest.raises(InputError, match="ubi_events") as caught:
        rows_of(tmp_path)
    assert "\n" not in str(caught.value)
