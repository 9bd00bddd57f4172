"""Logs and features as frames: read, audited and fitted, with messages about frames and columns."""

import numpy as np
import pandas
import pytest

import prsrank
from prsrank.audit import audit
from prsrank.errors import InputError
from prsrank.fit import fit_log
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import read_log
from prsrank.pairs.pair_set import PairSet


def frames(lists=40, sessions=10, docs=4, seed=2):
    """A log and a table of features."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(lists, docs, 2))
    rows = [
        (
            f"q{q}",
            s,
            f"d{d}",
            k + 1,
            int(rng.random() < (0.7 if features[q, d, 0] > 0 else 0.2) / (k + 1)),
        )
        for q in range(lists)
        for s in range(sessions)
        for k, d in enumerate(rng.permutation(docs))
    ]
    log = pandas.DataFrame(rows, columns=["query_id", "session_id", "doc_id", "position", "click"])
    table = [(f"q{q}", f"d{d}", *features[q, d]) for q in range(lists) for d in range(docs)]
    return log, pandas.DataFrame(table, columns=["query_id", "doc_id", "x", "y"])


def speaks_of_frames(error):
    text = str(error.value)
    assert "--" not in text
    assert "file" not in text
    assert "/" not in text
    return text


def test_features_may_be_a_frame_too():
    log, table = frames()
    clicks, lists = read_log(log, features=table)
    assert (clicks.sessions, lists.docs) == (400, 160)
    assert lists.feature_names == ("x", "y")
    expected = table.sort_values(["query_id", "doc_id"])[["x", "y"]].to_numpy(np.float32)
    assert np.array_equal(lists.features, expected)
    again, same = read_log(clicks, features=table)
    assert again is clicks
    assert np.array_equal(same.features, lists.features)


def test_features_in_a_frame_beside_a_log_in_a_file(tmp_path):
    log, table = frames()
    log.to_parquet(tmp_path / "log.parquet")
    expected = read_log(log, features=table)
    found = read_log(tmp_path / "log.parquet", features=table.sample(frac=1, random_state=1))
    assert found[0].equals(expected[0])
    assert np.array_equal(found[1].features, expected[1].features)


def test_a_frame_is_audited_as_it_is():
    log, _ = frames()
    assert audit(log).counts["sessions"] == 400
    renamed = log.rename(columns={"query_id": "q"})
    assert audit(renamed, mapping=LogMapping(columns={"query_id": "q"})).counts["queries"] == 40


@pytest.mark.parametrize(
    "call", [read_log, audit, lambda frame: fit_log(frame, out="no", data="synthetic:mq2007:9")]
)
def test_messages_speak_of_frames_and_columns(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log, _ = frames()
    with pytest.raises(InputError, match="the log has no column 'session_id'") as error:
        call(log.drop(columns="session_id"))
    assert "map session_id to the query's column" in speaks_of_frames(error)
    with pytest.raises(InputError, match="frame, or a mapping of arrays, not int") as error:
        call(3)
    assert "--" not in str(error.value)


def test_messages_about_a_frame_of_features():
    log, table = frames()
    with pytest.raises(
        InputError, match="the table of features: the table has no column 'doc_id'"
    ) as error:
        read_log(log, features=table.drop(columns="doc_id"))
    speaks_of_frames(error)


def test_a_fit_of_frames(tmp_path):
    log, table = frames()
    log.to_parquet(tmp_path / "log.parquet")
    table.to_parquet(tmp_path / "table.parquet")
    settings = {"ranker": "linear", "trials": 1, "propensity": "power:1"}
    found = [
        fit_log(one, features=features, out=tmp_path / name, **settings).manifest["outputs"]
        for name, one, features in (
            ("frames", log, table),
            ("files", tmp_path / "log.parquet", tmp_path / "table.parquet"),
        )
    ]
    assert found[0] == found[1]


def test_a_curve_with_gaps_can_be_covered():
    log, table = frames()
    clicks, lists = read_log(log, features=table)
    unknown = [1, 0.5, np.nan]
    curve = prsrank.Propensities(unknown, unknown, unknown, [90, 40, 0], "weak: ...", "harvest")
    with pytest.raises(InputError, match=r"position 4 has no propensity; prsrank\.covering"):
        PairSet.from_log(clicks, lists, curve, "prs")
    covered = prsrank.covering(curve, clicks.max_position)
    assert covered.propensity.tolist() == [1, 0.5, 0.5, 0.5]
    expected = prsrank.Propensities(*[[1, 0.5, 0.5, 0.5]] * 3, [1] * 4, "given", "file")
    one, two = (PairSet.from_log(clicks, lists, c, "prs") for c in (covered, expected))
    assert one.diagnostics() == two.diagnostics()


@pytest.mark.parametrize(
    ("weighting", "who"),
    [
        ("prs", "query 0, doc 3: clicked at position 3"),
        ("posterior", "the doc of row 2 was clicked"),
    ],
)
def test_a_click_where_nobody_looks_names_the_doc_and_the_way_on(weighting, who):
    positions = np.tile([1, 2, 3], 30)
    log = {
        **{"query_id": np.zeros(90, int), "session_id": np.repeat(np.arange(30), 3)},
        **{"doc_id": positions, "position": positions, "click": positions == np.repeat([1, 3], 45)},
    }
    docs = {"query_id": [0] * 3, "doc_id": [1, 2, 3], "x": [1.0, 2.0, 3.0]}
    lists = prsrank.RankingDataset.from_frame(docs)
    curve = prsrank.Propensities(*[[1, 0.5, 0]] * 3, [90, 45, 0], "weak: ...", "randomised")
    ranker = prsrank.LambdaMART()
    with pytest.raises(InputError, match=rf"{who}.* is 0 \(prsrank\.covering, or"):
        ranker.pairs(log, lists, curve, weighting)
    ranker.pairs(log, lists, prsrank.covering(curve, 3), weighting)


def test_a_curve_without_clicks_is_only_filled():
    known = [1, 0.5, np.nan, 0.25]
    curve = prsrank.Propensities(known, known, known, [0] * 4, "given", "file")
    assert prsrank.covering(curve, 5).propensity.tolist() == [1, 0.5, 0.5, 0.25, 0.25]
