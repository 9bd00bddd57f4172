"""Audits of logs of single actions and of UBI, and of tables of features."""

import json

import pytest

from prsrank.audit import audit
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import open_events

ACTIONS = """query_id,session_id,doc_id,position,action
1,1,a,1,impression
1,1,a,1,click
1,1,b,2,impression
1,1,c,3,click
"""


def test_click_without_an_impression_row(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(ACTIONS)
    with open_events(file, mapping=LogMapping(actions={"click": 1.0})) as source:
        found = audit(source)
    (finding,) = [f for f in found.findings if f.code == "click-not-shown"]
    assert (finding.count, finding.of) == (1, 3)
    assert finding.where == "doc c of session 1 of query 1"
    assert not found.errors


def write_ubi(folder, queries, events):
    folder.mkdir()
    for name, rows in (("ubi_queries", queries), ("ubi_events", events)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def ubi_event(query, doc, ordinal):
    return {
        "action_name": "click",
        "timestamp": "2026-01-01T00:00:00Z",
        "query_id": query,
        "event_attributes": {"object": {"object_id": doc}, "position": {"ordinal": ordinal}},
    }


def test_what_ubi_queries_and_events_disagree_on(tmp_path):
    queries = [
        {
            "query_id": f"q{i}",
            "user_query": "shoes",
            "timestamp": "2026-01-01T00:00:00Z",
            "query_response_hit_ids": ["a", "b", "c"],
        }
        for i in range(20)
    ]
    events = [ubi_event(f"q{i}", "b", 1) for i in range(10)]
    events += [ubi_event("q11", "z", 2), ubi_event("gone", "a", 0)]
    with open_events(write_ubi(tmp_path / "ubi", queries, events)) as source:
        found = audit(source)
    codes = {f.code: f.count for f in found.findings}
    assert codes["click-not-shown"] == 1
    assert codes["event-without-query"] == 1
    assert "positions-rebased" in codes
    assert found.counts["clicks"] == 10
    assert not found.errors


LOG = "query_id,session_id,doc_id,position,click\n1,1,a,1,1\n1,1,b,2,0\n2,2,a,1,0\n2,2,c,2,1\n"


@pytest.mark.parametrize(
    ("table", "codes"),
    [
        ("1,a,1,5\n1,b,2,6\n2,a,3,7\n2,c,4,8\n", set()),
        ("1,a,1,5\n1,b,2,5\n2,a,3,5\n2,c,4,5\n", {"feature-constant"}),
        ("1,a,1,5\n1,b,2,\n2,a,3,7\n2,c,4,8\n", {"feature-missing"}),
        ("1,a,1,5\n1,b,2,6\n2,a,3,7\n", {"feature-rows-missing"}),
        ("1,a,1,5\n1,a,1,5\n1,b,2,6\n2,a,3,7\n2,c,4,8\n", set()),
        ("1,a,1,5\n1,a,1,6\n1,b,2,6\n2,a,3,7\n2,c,4,8\n", {"feature-table-disagrees"}),
    ],
)
def test_table_of_features(table, codes, tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "features.csv").write_text("query_id,doc_id,x,y\n" + table)
    with open_events(tmp_path / "log.csv") as source:
        before = audit(source)
        found = audit(source, table=tmp_path / "features.csv", mapping=LogMapping())
    assert {f.code for f in found.findings if f.code.startswith("feature")} == codes
    assert [f for f in found.findings if not f.code.startswith("feature")] == before.findings
