"""A run that is watched, from files: the log of the fit is read once, a new one once."""

import json
import shutil

import numpy as np
import pytest

from prsrank import InputError, Monitoring, monitor_log, write_events
from prsrank.files import read_json
from prsrank.fit.engine import LocalEngine
from prsrank.fit.manifest import judged_model
from prsrank.monitor.monitoring import gain_of, window_line


@pytest.fixture
def watched(run, tmp_path):
    """A copy of the run, whose log may be taken away."""
    shutil.copytree(run.parent, tmp_path / "copy")
    manifest = tmp_path / "copy/run/manifest.json"
    log = json.dumps(str(tmp_path / "copy/log.parquet"))
    before = json.dumps(str(run.parent / "log.parquet"))
    manifest.write_text(manifest.read_text().replace(before, log))
    return tmp_path / "copy/run"


@pytest.fixture
def reads(monkeypatch):
    """Count the logs that are opened."""
    opened, real = [], LocalEngine.open_log

    def counted(self, log, **options):
        opened.append(str(log))
        return real(self, log, **options)

    monkeypatch.setattr(LocalEngine, "open_log", counted)
    return opened


def test_the_state_stands_for_the_log_of_the_fit(watched, sessions, tmp_path, reads):
    logs = [tmp_path / f"{name}.parquet" for name in ("one", "two")]
    for number, path in enumerate(logs):
        write_events(sessions(900, 20 + number), path)
    first = monitor_log(watched, logs[0])
    assert reads == [str(watched.parent / "log.parquet"), str(logs[0])]
    (watched.parent / "log.parquet").unlink()
    reads.clear()
    second = monitor_log(watched, logs[1])
    assert reads == [str(logs[1])]
    assert first.path == watched.with_name(f"{watched.name}.monitor.json")
    assert [one.summary.name for one in second.state.windows] == ["one", "two"]
    assert [one.summary.name for one in second.new] == ["two"]
    assert second.verdict == "fine"
    assert second.state.reference == first.state.reference


def test_several_windows_cost_one_reading(watched, sessions, reads):
    found = monitor_log(watched, sessions(1800, 23), every=900)
    assert len(reads) == 2
    assert [one.summary.sessions for one in found.new] == [900, 900]


def test_without_its_log_what_the_fit_held_out_is_the_reference(watched, sessions):
    (watched.parent / "log.parquet").unlink()
    found = monitor_log(watched, sessions(900, 24))
    assert "held-out part" in found.state.reference.source
    assert found.state.reference.summary.sessions < 1000
    assert found.verdict == "fine"


def test_a_change_is_found_and_told(run, sessions, tmp_path):
    found = monitor_log(run, sessions(1500, 25, eta=1.7), state=tmp_path / "state.json")
    assert isinstance(found, Monitoring)
    assert found.verdict == "retrain"
    line = window_line(found.new[0])
    assert json.loads(json.dumps(line)) == line
    assert line["verdict"] == "retrain"
    assert "fall" in [reason["check"] for reason in line["reasons"]]
    assert found.to_frame()["verdict"].tolist() == ["retrain"]
    assert "retrain" in repr(found)


def test_a_window_is_added_to_the_one_before_from_the_state(run, sessions, tmp_path):
    said = []
    for seed in (31, 32):
        log = tmp_path / f"{seed}.parquet"
        write_events(sessions(500, seed, eta=1.6), log)
        (window,) = monitor_log(run, log, state=tmp_path / "state.json").new
        said.append(next(one.what for one in window.reasons if one.check == "fall"))
    # what is surest is told: two windows of the same change are surer than one
    assert [one.endswith("over the last two windows") for one in said] == [False, True]


def test_the_gain_before_is_that_of_the_fit_over_the_logged_ranking(run):
    found = read_json(run / "evaluation.json")["differences"]
    rows = [
        (one["difference"], one["low"], one["high"])
        for one in found
        if (one["part"], one["metric"], one["estimator"]) == ("all", "dcg@10", "dr")
        and (one["ranker"], one["against"]) == (judged_model(run).name, "logged")
    ]
    gain = gain_of(run)
    assert [(gain.difference, gain.low, gain.high)] == rows


def test_a_gain_over_shuffled_docs_is_no_gain_to_compare_with(watched, sessions):
    manifest = watched / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"query:0.2"', '"randomised"'))
    found = monitor_log(watched, sessions(300, 30))
    assert found.state.reference.gain is None


def test_a_log_seen_again_is_replaced(run, sessions, tmp_path):
    log, state = tmp_path / "new.parquet", tmp_path / "state.json"
    write_events(sessions(600, 26), log)
    monitor_log(run, log, state=state)
    before = state.read_text()
    monitor_log(run, log, state=state)
    assert state.read_text() == before


def test_times_name_the_windows(run, sessions, tmp_path):
    frame = sessions(1200, 28).to_frame()
    start = np.datetime64("2026-03-02T12:00", "us")
    frame["timestamp"] = start + frame.session_id.to_numpy() * np.timedelta64(72, "s")
    found = monitor_log(run, frame, state=tmp_path / "state.json", every="day")
    assert [one.summary.name for one in found.new] == ["2026-03-02", "2026-03-03"]
    assert found.new[0].summary.begin == "2026-03-02 12:00:00"


def test_docs_without_features_are_counted(run, sessions, tmp_path):
    frame = sessions(1200, 29).to_frame()
    frame["doc_id"] = np.where(frame.session_id % 5 == 0, frame.doc_id + 1000, frame.doc_id)
    found = monitor_log(run, frame, state=tmp_path / "state.json")
    assert "left out" in [reason.check for reason in found.new[0].reasons]
    assert found.new[0].summary.ratios["left out"].value == pytest.approx(0.2, abs=0.01)


def test_nothing_is_written_where_the_log_cannot_be_read(run, tmp_path):
    state = tmp_path / "state.json"
    with pytest.raises(InputError, match="no such file"):
        monitor_log(run, tmp_path / "none.parquet", state=state)
    assert not state.exists()


def test_a_folder_that_is_no_fit_is_refused(tmp_path, sessions):
    with pytest.raises(InputError, match="is not a folder that fit wrote"):
        monitor_log(tmp_path, sessions(10, 1))
