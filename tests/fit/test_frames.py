"""A fit of frames: the same as of their files, repeatable, and short to show."""

import numpy as np
import pandas as pd
import pytest

import prsrank
from prsrank.errors import InputError
from prsrank.fit.manifest import read_manifest

QUICK = {"ranker": "linear", "weighting": "prs", "trials": 1, "propensity": "power:1"}


@pytest.fixture(scope="module")
def frames():
    data = prsrank.synthetic_dataset("mq2007", 40, seed=1)
    log = prsrank.simulate_clicks(
        data, data.features[:, 0], prsrank.PositionBasedModel(), clicks=2000, seed=1
    )
    table = pd.DataFrame(data.features, columns=[f"f{name}" for name in data.feature_names])
    table.insert(0, "query_id", np.repeat(data.query_ids, data.list_lengths))
    table.insert(1, "doc_id", data.doc_names)
    return log.to_frame(), table


@pytest.fixture(scope="module")
def result(frames, tmp_path_factory):
    log, table = frames
    return prsrank.fit_log(log, features=table, out=tmp_path_factory.mktemp("fit") / "run", **QUICK)


def test_a_fit_of_frames_keeps_its_inputs_beside_it(result, frames):
    kept = result.folder.parent / "run-inputs"
    assert sorted(path.name for path in kept.iterdir()) == ["features.parquet", "log.parquet"]
    assert read_manifest(result.folder)["settings"]["log"] == str(kept / "log.parquet")
    assert len(pd.read_parquet(kept / "log.parquet")) == len(frames[0])
    assert result.model.predict(frames[1]).index.equals(frames[1].index)


def test_a_fit_shows_its_verdict_and_its_methods_in_short(result):
    assert len(repr(result)) < 300
    assert result.verdict.title in repr(result)
    frame = result.to_frame()
    assert frame["method"].tolist() == list(result.tuned)
    assert frame.loc[frame["chosen"], "method"].tolist() == [result.choice.name]
    gain = result.verdict.gain.difference
    assert frame.loc[frame["chosen"], "gain"].tolist() == [gain]
    assert result.plot().to_dict()["concat"]
    assert "<table>" in result._repr_html_()


def test_frames_that_cannot_be_used_are_named_without_files_or_flags(frames, tmp_path):
    log, table = frames
    with pytest.raises(InputError, match="has no column 'position'") as caught:
        prsrank.fit_log(log.drop(columns="position"), features=table, out=tmp_path / "run")
    assert "parquet" not in str(caught.value)
    with pytest.raises(InputError, match=r"^no features: give a data set") as caught:
        prsrank.fit_log(log, out=tmp_path / "run")
    assert "--" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
