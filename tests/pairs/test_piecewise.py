"""From the events of a log to pairs, in one piece and in several."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import DataWarning, InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_files import write_compact, write_events
from prsrank.logs.mapping import LogMapping
from prsrank.logs.pieces import LocalSessions
from prsrank.logs.reading import open_events, read_click_log, read_log
from prsrank.logs.stored_pieces import read_in_pieces
from prsrank.pairs.pair_set import PairSet, fold_pieces
from prsrank.propensity.curve import PowerLaw


def read_pairs(
    path, curve=None, weighting="prs", *, mapping=None, dataset=None, memory=None, **options
) -> tuple[PairSet, RankingDataset]:
    """Fold the pieces of a log on disk; without a data set, on the docs that it shows."""
    mapping = mapping or LogMapping()
    with (
        tempfile.TemporaryDirectory() as folder,
        open_events(path, mapping=mapping, memory=memory) as source,
    ):
        pieces = read_in_pieces(source, Path(folder))
        lists = dataset or shown_lists(read_click_log(path, mapping=mapping))
        folded: list[ClickLog] = []

        def fold(log: ClickLog, own: RankingDataset) -> PairSet:
            folded.append(log)
            return PairSet.from_log(log, own, curve, weighting, **options)

        pairs = fold_pieces(LocalSessions(pieces, lists, whole=True), fold)
        assert len(folded) == len(list(pieces))
        return pairs, lists


def shown_lists(log: ClickLog) -> RankingDataset:
    nothing = np.zeros((len(log.doc_ids), 0), np.float32)
    return RankingDataset(nothing, log.doc_offsets, log.query_ids, doc_ids=log.doc_ids)


@pytest.fixture(scope="module")
def simulated() -> tuple[ClickLog, RankingDataset]:
    """Many sessions of few lists, in changing orders."""
    data = synthetic_dataset("mq2007", 25, seed=3)
    rng = np.random.default_rng(1)
    rankers = [rng.normal(size=data.docs) for _ in range(3)]
    logs = [
        simulate_clicks(data, [r], PositionBasedModel(), clicks=400, seed=i)
        for i, r in enumerate(rankers)
    ]
    from prsrank.logs.click_log_parts import merge

    parts = []
    for index, log in enumerate(logs):
        ids = np.arange(log.sessions) + 100_000 * index
        parts.append(ClickLog(**{**_fields(log), "session_ids": ids}))
    return merge(parts), data


def _fields(log: ClickLog) -> dict:
    from dataclasses import fields

    return {f.name: getattr(log, f.name) for f in fields(log)}


def assert_same(one: PairSet, other: PairSet, *, exact: bool = False) -> None:
    np.testing.assert_array_equal(one.winner_offsets, other.winner_offsets)
    np.testing.assert_array_equal(one.winner_row, other.winner_row)
    tolerance = 0.0 if exact else 1e-12
    np.testing.assert_allclose(one.weights, other.weights, rtol=tolerance, atol=0)
    np.testing.assert_allclose(one.totals, other.totals, rtol=tolerance, atol=0)
    assert (one.normalise, one.truncation) == (other.normalise, other.truncation)


def test_weights_of_actions_multiply_the_pairs_of_their_winner(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(
        "query_id,session_id,doc_id,position,click,cart\n1,1,5,1,1,0\n1,1,6,2,0,0\n1,1,7,3,1,1\n"
    )
    mapping = LogMapping(actions={"click": 1, "cart": 3.5})
    pairs, data = read_pairs(file, PowerLaw(1.0), "ips", mapping=mapping, normalise="ndcg")
    assert data.doc_ids.tolist() == [5, 6, 7]
    ideal = 1 + 1 / np.log2(3)
    assert pairs.winner_row.tolist() == [0, 2]
    np.testing.assert_allclose(pairs.row(0), np.array([0, 1, 0]) / ideal)
    np.testing.assert_allclose(pairs.row(1), np.array([0, 3.5 * 3, 0]) / ideal)
    assert pairs.diagnostics().weight_max == 3.5 * 3


@pytest.mark.parametrize("weighting", ["naive", "prs", "ips_all"])
def test_weights_of_actions_reach_the_log_and_its_files(simulated, tmp_path, weighting):
    log, data = simulated
    drawn = np.random.default_rng(1).choice([1.0, 2.5, 10.0], len(log.clicks))
    log = replace(log, click_weights=drawn)
    direct = PairSet.from_log(log, data, PowerLaw(1.0), weighting, normalise="ndcg")
    write_events(log, tmp_path / "log.parquet")
    write_compact(log, tmp_path / "log")
    for name in ("log.parquet", "log"):
        pairs, _ = read_pairs(
            tmp_path / name, PowerLaw(1.0), weighting, dataset=data, normalise="ndcg"
        )
        assert_same(pairs, direct)
        assert read_log(tmp_path / name)[0].equals(log)


def test_actions_become_weights_of_clicks(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(
        "query_id,session_id,doc_id,position,click,cart\n1,1,5,1,1,0\n1,1,6,2,0,0\n1,1,7,3,1,1\n"
    )
    log, _ = read_log(file, mapping=LogMapping(actions={"click": 1, "cart": 3.5}))
    assert log.click_weights.tolist() == [1, 3.5]
    log, _ = read_log(file, mapping=LogMapping(actions={"click": 1, "cart": 1}))
    assert log.click_weights is None


@pytest.mark.parametrize("weight", ["0", "-1", "", "nan", "1e999"])
def test_a_click_without_a_usable_weight_is_named(tmp_path, weight):
    file = tmp_path / "log.csv"
    file.write_text(
        "query_id,session_id,doc_id,position,click,weight\n"
        f"1,1,5,1,1,{weight}\n1,1,6,2,0,\n1,1,7,3,1,2.5\n"
    )
    with pytest.raises(InputError, match="weight of a click is not a number above 0 in 1 of 3"):
        read_log(file)


@pytest.mark.parametrize("weighting", ["naive", "prs", "ips_all"])
@pytest.mark.parametrize("parts", [1, 3])
def test_the_file_gives_the_same_pairs_as_the_log(
    simulated, tmp_path, weighting, parts, monkeypatch
):
    log, data = simulated
    write_events(log, tmp_path / "log.parquet")
    if parts > 1:
        monkeypatch.setattr("prsrank.logs.stored_pieces.BYTES_PER_EVENT", 20_000)
    given, options = (PowerLaw(1.0), weighting), {"normalise": "ndcg", "dataset": data}
    with open_events(tmp_path / "log.parquet", memory="500MB") as source:
        pieces = len(list(read_in_pieces(source, tmp_path)))
    assert (pieces > 1) == (parts > 1)
    pairs, _ = read_pairs(tmp_path / "log.parquet", *given, **options, memory="500MB")
    assert_same(pairs, PairSet.from_log(log, data, PowerLaw(1.0), weighting, normalise="ndcg"))
    again, _ = read_pairs(tmp_path / "log.parquet", *given, **options, threads=1)
    assert_same(pairs, again, exact=True)


def _write_log(file, lists: dict) -> None:
    """Write ten sessions of each query's docs, with one to three clicks each."""
    rng = np.random.default_rng(5)
    rows = ["query_id,session_id,doc_id,position,click"]
    for query, docs in lists.items():
        for session in range(10):
            clicks = rng.permutation(len(docs)) < rng.integers(1, 4)
            shown = zip(rng.permutation(docs), clicks, strict=True)
            rows += [
                f"{query},{session},{doc},{k + 1},{int(c)}" for k, (doc, c) in enumerate(shown)
            ]
    file.write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize("ids", [int, "{:03d}x".format])
@pytest.mark.parametrize("each", [1, 20_000])
def test_pieces_of_a_log_with_one_large_query(tmp_path, monkeypatch, ids, each):
    file = tmp_path / "log.csv"
    _write_log(file, {ids(q): range(60 if q == 7 else 8) for q in range(-3, 20)})
    monkeypatch.setattr("prsrank.logs.stored_pieces.BYTES_PER_EVENT", each)
    pairs, data = read_pairs(file, PowerLaw(1.0), "prs", memory="100MB")
    log, _ = read_log(file)
    assert_same(pairs, PairSet.from_log(log, data, PowerLaw(1.0), "prs"))


def test_pieces_of_a_log_that_shows_some_of_the_lists(simulated, tmp_path, monkeypatch):
    log, data = simulated
    part = log.select(log.ranking_query[log.session_ranking] % 3 > 0)
    write_events(part, tmp_path / "log.parquet")
    monkeypatch.setattr("prsrank.logs.stored_pieces.BYTES_PER_EVENT", 20_000)
    pairs, _ = read_pairs(tmp_path / "log.parquet", PowerLaw(1.0), dataset=data, memory="500MB")
    assert_same(pairs, PairSet.from_log(part, data, PowerLaw(1.0)), exact=True)
    assert (np.diff(pairs.winner_offsets) == 0).any()
    stray = part.query_ids[-1]
    known = data.select(data.query_ids != stray)
    with pytest.raises(InputError, match=f"query {stray} is in the log but not in"):
        read_pairs(tmp_path / "log.parquet", PowerLaw(1.0), dataset=known, memory="500MB")


@pytest.mark.parametrize("largest", [2**32 - 2, 2**32 - 1, 2**32, 2**62])
@pytest.mark.parametrize("smallest", [0, -1])
def test_ids_of_any_size(tmp_path, smallest, largest):
    file = tmp_path / "log.csv"
    extremes = [smallest, largest, largest - 1, 2**31, 17]
    docs = [*extremes, largest % 2**32 + 2, 5]
    _write_log(file, dict.fromkeys([*extremes, largest % 2**32 + 1], docs))
    pairs, data = read_pairs(file, PowerLaw(1.0), "prs")
    log, _ = read_log(file)
    assert data.lists == 6
    assert_same(pairs, PairSet.from_log(log, data, PowerLaw(1.0), "prs"))


@pytest.mark.parametrize("stray", [2**32 - 1, 2**32, -1, 2**62])
@pytest.mark.parametrize("clicked", [0, 1])
def test_ids_that_the_data_set_does_not_have_are_named(tmp_path, stray, clicked):
    file = tmp_path / "log.csv"
    header = "query_id,session_id,doc_id,position,click\n"
    other = RankingDataset(np.eye(2), np.array([0, 2]), np.array([7]), doc_ids=np.array([0, 1]))
    file.write_text(header + f"7,1,0,1,{1 - clicked}\n7,1,{stray},2,{clicked}\n")
    with pytest.raises(InputError, match=f"doc {stray} of query 7 is in the log but not in"):
        read_pairs(file, PowerLaw(1.0), dataset=other)
    file.write_text(header + f"7,1,0,1,1\n7,1,1,2,0\n{stray},1,0,1,{clicked}\n")
    with pytest.raises(InputError, match=f"query {stray} is in the log but not in"):
        read_pairs(file, PowerLaw(1.0), dataset=other)


class _ByDevice:
    def at(self, positions, *, context=None):
        return np.asarray(positions, float) ** (-2.0 if context == "phone 'x'" else -0.5)


def test_contexts_choose_the_curve(tmp_path):
    file = tmp_path / "log.csv"
    rows = ["query_id,session_id,doc_id,position,click,device"]
    for session, device in enumerate(["phone 'x'", "", "desk"]):
        rows += [f"q,{session},d{k},{k},{int(k == 2)},{device}" for k in (1, 2, 3)]
    file.write_text("\n".join(rows) + "\n")
    mapping = LogMapping(contexts=("device",))
    pairs, data = read_pairs(file, _ByDevice(), "prs", mapping=mapping, context="device")
    log, _ = read_log(file, mapping=mapping)
    assert_same(pairs, PairSet.from_log(log, data, _ByDevice(), "prs", context="device"))
    with pytest.raises(InputError, match="context 'place' is not in the log"):
        read_pairs(file, _ByDevice(), "prs", mapping=mapping, context="place")


def test_wrong_input_is_named(tmp_path):
    file = tmp_path / "log.csv"
    header = "query_id,session_id,doc_id,position,click,propensity\n"
    file.write_text(header + "q,1,a,1,1,0\nq,1,b,2,0,1\n")
    with pytest.raises(
        InputError, match=r"propensity is 0, but the doc was clicked.*doc a of session 1"
    ):
        read_pairs(file)
    file.write_text(header + "q,1,a,1,1,1\nq,1,a,2,0,1\n")
    with pytest.raises(InputError, match="doc a twice in session 1 of query q"):
        read_pairs(file, PowerLaw(1.0))
    other = RankingDataset(np.eye(1), np.array([0, 1]), np.array(["q"]), doc_ids=np.array(["z"]))
    file.write_text(header + "q,1,a,1,1,1\nq,1,z,2,0,1\n")
    with pytest.raises(InputError, match="doc a of query q is in the log but not in the data set"):
        read_pairs(file, PowerLaw(1.0), dataset=other)
    file.write_text("query_id,session_id,doc_id,position,click\nq,1,a,1,1\nq,1,b,2,0\n")
    with pytest.raises(InputError, match="weighting prs needs propensities; the log has none"):
        read_pairs(file)


def test_a_propensity_above_one_is_warned_of(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(
        "query_id,session_id,doc_id,position,click,propensity\nq,1,a,1,1,1.5\nq,1,b,2,0,1\n"
    )
    with pytest.warns(DataWarning, match=r"a propensity is 1\.5"):
        read_pairs(file)
