"""A log that does not fit the memory given is read in pieces, and says the same."""

from dataclasses import replace

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.logs import stored_pieces
from prsrank.logs.click_log import Context
from prsrank.logs.click_log_files import write_events
from prsrank.logs.click_log_parts import merge
from prsrank.logs.reading import open_events
from prsrank.logs.stored_pieces import StoredLogs, read_in_pieces
from prsrank.logs.tables import memory_limit


@pytest.fixture(scope="module", params=["numbers", "strings", "long strings"])
def log(request):
    data = synthetic_dataset("mq2007", 50, seed=1)
    rng = np.random.default_rng(3)
    log = simulate_clicks(
        data, rng.normal(size=data.docs), PositionBasedModel(), clicks=900, randomised=0.2, seed=1
    )
    codes = rng.integers(2, size=log.sessions)
    log = replace(
        log,
        session_ids=np.arange(log.sessions),
        session_times=rng.integers(10**9, size=log.sessions),
        contexts={"device": Context(("desk", "phone"), codes.astype(np.int32))},
        click_weights=rng.choice([1.0, 5.0], len(log.clicks)),
    )
    if request.param != "numbers":
        log = replace(log, query_ids=[f"query {q}" for q in log.query_ids])
    if request.param == "long strings":  # in some pieces, not in all
        ids = (log.query_ids.tolist(), log.session_ids.astype(str).tolist())
        queries, sessions = ([*some[:-1], some[-1] + "é" * 2_000] for some in ids)
        log = replace(log, query_ids=queries, session_ids=sessions)
    return log


@pytest.fixture
def file(log, tmp_path):
    write_events(log, tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def in_pieces(file, folder, monkeypatch, *, keep=True, each=9_000_000, **options):
    """Read a log as if an event took a hundred thousand times as much."""
    monkeypatch.setattr(stored_pieces, "BYTES_PER_EVENT", each)
    with open_events(file, memory="1GB") as source:
        if not keep:
            monkeypatch.setattr(StoredLogs, "bytes", property(lambda _: 1 << 40, lambda *_: None))
        return read_in_pieces(source, folder, **options)


@pytest.mark.parametrize("keep", [True, False])
def test_pieces_share_no_query_and_make_the_whole(log, file, tmp_path, monkeypatch, keep):
    pieces = in_pieces(file, tmp_path, monkeypatch, keep=keep, each=100_000)
    for _ in range(2):  # they can be gone through again
        found = list(pieces)
        assert len(found) > 3
        queries = np.concatenate([piece.query_ids for piece in found])
        assert len(np.unique(queries)) == len(queries) == log.queries
        assert merge(found).equals(log)


def test_a_log_that_fits_is_one_piece(log, file, tmp_path):
    with open_events(file, memory="1GB") as source:
        assert memory_limit(source.connection) == pytest.approx(0.8e9, rel=0.08)
        [whole] = read_in_pieces(source, tmp_path / "pieces")
    assert whole.equals(log)
    assert not (tmp_path / "pieces").exists()


def test_rows_that_cannot_be_used_are_told_of_the_whole_log(tmp_path, monkeypatch):
    file = tmp_path / "log.csv"
    file.write_text("query_id,session_id,doc_id,position,click\n" + "1,1,5,0,0\n1,1,6,1,1\n" * 50)
    with pytest.raises(
        InputError, match=r"position 0, but positions start at 1.* in 50 of 100 rows"
    ):
        in_pieces(file, tmp_path, monkeypatch)


def test_split_lists_of_a_query_are_in_one_piece(tmp_path, monkeypatch):
    file = tmp_path / "log.csv"
    rows = [
        f"q{q}#{n},{n},d{k},{k},{int(k == 1)}" for q in range(30) for n in range(5) for k in (1, 2)
    ]
    file.write_text("query_id,session_id,doc_id,position,click\n" + "\n".join(rows))
    pieces = list(in_pieces(file, tmp_path, monkeypatch, by_original=True))
    assert len(pieces) > 3
    for piece in pieces:
        _, counts = np.unique([q.split("#")[0] for q in piece.query_ids], return_counts=True)
        assert (counts == 5).all()
