"""How often an audit reads the log."""

import pytest

from prsrank.audit import audit
from prsrank.logs.event_source import EVENTS, LogSource, open_frame


@pytest.mark.parametrize(("more", "passes"), [(False, 5), (True, 11)])
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
