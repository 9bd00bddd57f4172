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
