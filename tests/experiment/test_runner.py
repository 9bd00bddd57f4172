import copy
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.experiment import runner
from prsrank.experiment.jobs import Cell, Planner
from prsrank.experiment.journal import Finished, decoded, encoded, open_journal
from prsrank.experiment.results import FRAME
from prsrank.experiment.runner import compute_units, run_experiments
from prsrank.experiment.spec_files import load_spec, parse_spec

DATA = "synthetic:mq2007:40"

PROGRAM = """
import sys, tomllib
from pathlib import Path
from prsrank.experiment.spec_files import load_spec
from prsrank.experiment.runner import compute_units, run_experiments
if __name__ == "__main__":
    spec = load_spec(sys.argv[1])
    run_experiments([spec], sys.argv[2], Path(sys.argv[3]), resume=True, processes=2)
"""

SPEC = """
id = "killed"
title = "An experiment that is killed"
claim = "It goes on."
metrics = ["ndcg@10", "map"]
folds = 1
runs = 2
[axis]
name = "clicks"
scale = "log"
points = [100, 300, 1000]
[[panels]]
name = "linear"
ranker = "linear"
[[panels]]
name = "lambdamart"
ranker = "lambdamart"
[[methods]]
name = "production"
[[methods]]
name = "naive"
[[methods]]
name = "prs"
[rankers.linear]
grid = { l2 = [0.01, 1.0] }
[rankers.lambdamart]
settings = { trees = 20, patience = 5 }
"""


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """The tiny experiment, run once in this process."""
    folder = tmp_path_factory.mktemp("serial")
    spec = replace(load_spec("fig3"), **_tiny())
    return spec, folder, run_experiments([spec], DATA, folder, processes=0)


def _tiny():
    spec = load_spec("fig3")
    kept = [m for m in spec.methods if m.name in ("production", "naive", "prs", "labels")]
    return {
        "folds": 2,
        "runs": 2,
        "axis": replace(spec.axis, points=(1000, 4000)),
        "test": spec.test,
        "panels": spec.panels[:1],
        "methods": tuple(replace(m, panels=("linear",)) for m in kept),
    }


def test_values_are_what_the_pipeline_gives_step_by_step(finished_run):
    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.production import logging_part, production_scores
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.data.collections import open_collection
    from prsrank.experiment.inputs import Inputs, read_source
    from prsrank.metrics.ranking import ndcg
    from prsrank.propensity.curve import PowerLaw
    from prsrank.rankers.linear import LinearRanker

    spec, _, run = finished_run
    collection = open_collection(DATA)
    train, test = (collection.load(split, fold=2) for split in ("train", "test"))
    source = read_source(DATA, 2)
    l2 = run.results["fig3"].chosen["linear prs"][1]["l2"]
    job = Planner(spec, source, "1").job(Cell("linear", "prs", 4000, 2, 1), None)
    production = production_scores(train, share=0.01, seed=Inputs(job).seed("production"))
    lists, scores = logging_part(train, [production])
    log = simulate_clicks(
        lists,
        scores,
        PositionBasedModel(eta=1, mu=0.1),
        clicks=4000,
        seed=Inputs(job).seed("clicks"),
    )
    ranker = LinearRanker(l2=l2, missing="impute")
    ranker.fit(lists, ranker.pairs(log, lists, PowerLaw(1.0), "prs"))
    expected = ndcg(test.relevance, ranker.score(test.features), test.offsets, k=10)
    values = run.results["fig3"].arrays["linear", "prs", 4000, "ndcg@10"]
    assert values.shape == (2, 16)
    np.testing.assert_array_equal(values[1, 8:], expected)
    shown = ndcg(test.relevance, production.score(test.features), test.offsets, k=10)
    np.testing.assert_array_equal(
        run.results["fig3"].arrays["linear", "production", 1000, "ndcg@10"][1, 8:], shown
    )


def test_tuning_takes_the_best_on_the_validation_part(finished_run):
    _, folder, _ = finished_run
    with open_journal(folder) as journal:
        searches = [f for f in journal.finished.values() if f.kind == "tuning"]
    assert len(searches) == 2 * 3  # folds x methods that are trained
    for search in searches:
        details = search.details
        assert len(details["values"]) == len(details["tried"]) == 5
        best = details["tried"][int(np.argmax(details["values"]))]
        assert details["chosen"] == best


def test_parallel_equals_serial_bit_for_bit(finished_run, tmp_path):
    spec, folder, _ = finished_run
    run_experiments([spec], DATA, tmp_path, processes=2)
    assert (tmp_path / FRAME).read_bytes() == (folder / FRAME).read_bytes()


def test_a_run_into_a_folder_with_results_needs_resume(finished_run):
    spec, folder, first = finished_run
    with pytest.raises(InputError, match="--resume"):
        run_experiments([spec], DATA, folder, processes=0)
    before = (folder / FRAME).read_bytes()
    again = run_experiments([spec], DATA, folder, processes=0, resume=True)
    assert (again.computed, again.reused) == (0, first.computed)
    assert (folder / FRAME).read_bytes() == before


def test_a_changed_spec_computes_only_what_changed(spec_values, tmp_path):
    first = run_experiments([parse_spec(spec_values)], DATA, tmp_path, processes=0)
    # tuning: 2 folds x 3 methods; production 2 x 2; naive, prs 2 x 2 x 2 points; labels 2
    assert first.computed == 6 + 4 + 16 + 2
    more = copy.deepcopy(spec_values)
    more["axis"]["points"] = [100, 400, 800]
    added = run_experiments([parse_spec(more)], DATA, tmp_path, processes=0, resume=True)
    assert added.computed == 2 * 2 * 2  # folds x runs x (naive, prs)
    other = copy.deepcopy(more)
    other["rankers"]["linear"]["grid"]["l2"] = [0.01, 1.0, 10.0]
    other["methods"] = [{"name": "prs"}]
    changed = run_experiments(
        [parse_spec({**other, "test": []})], DATA, tmp_path, processes=0, resume=True
    )
    assert 2 <= changed.computed <= 2 + 3 * 4
    back = run_experiments([parse_spec(spec_values)], DATA, tmp_path, processes=0, resume=True)
    assert back.computed == 0


def test_the_same_job_in_two_experiments_is_computed_once(spec_values, tmp_path):
    spec = parse_spec(spec_values)
    values = copy.deepcopy(spec_values) | {
        "id": "other",
        "axis": {"name": "mu", "points": [0.1, 0.2]},
    }
    both = run_experiments([spec, parse_spec(values)], DATA, tmp_path, processes=0)
    alone = 6 + 4 + 16 + 2
    assert both.computed == alone + 2 * 2 * 2  # only mu = 0.2 is new
    np.testing.assert_array_equal(
        both.results["tiny"].arrays["linear", "prs", 400, "map"],
        both.results["other"].arrays["linear", "prs", 0.1, "map"],
    )


def test_tuning_on_clicks_needs_no_validation_labels(spec_values, tmp_path, monkeypatch):
    from prsrank.experiment import methods

    def labels_used(*_):
        raise AssertionError("labels of the validation part were used")

    monkeypatch.setattr(methods, "label_quality", labels_used)
    values = spec_values | {"tuning": {"on": "clicks"}, "folds": 1, "runs": 1}
    values["methods"] = [{"name": "naive"}, {"name": "prs"}]
    run = run_experiments([parse_spec(values)], DATA, tmp_path, processes=0)
    assert set(run.results["tiny"].chosen) == {"linear naive", "linear prs"}


def test_without_pytorch_its_methods_are_left_out_with_a_note(monkeypatch):
    monkeypatch.setattr(runner.importlib.util, "find_spec", lambda name: None)
    table1 = runner.possible(load_spec("table1"))
    left = [method.name for method in table1.methods_of("")]
    assert left == ["svm", "unbiased_lambdamart", "prs"]
    assert "prsrank[dnn]" in table1.notes[-1]
    table2 = runner.possible(load_spec("table2"))
    assert [p.name for p in table2.panels if table2.methods_of(p.name)] == ["linear", "lambdamart"]
    assert runner.possible(load_spec("fig3")) == load_spec("fig3")


def test_results_are_read_again_from_the_folder(finished_run):
    spec, folder, run = finished_run
    again = run_experiments([spec], DATA, folder, processes=0, resume=True)
    read = again.results[spec.id]
    for part in ("chosen", "clicks_per_query"):
        assert getattr(read, part) == getattr(run.results[spec.id], part)
    assert list(read.clicks_per_query) == [1000, 4000]
    assert list(read.methods("linear")) == ["production", "naive", "prs", "labels"]
    for key, values in run.results["fig3"].arrays.items():
        np.testing.assert_array_equal(read.arrays[key], values)


def test_a_torn_last_line_is_dropped(tmp_path):
    entry = Finished("a", "ranking", {"map": np.array([0.5, np.nan])}, {"x": 1}, 1.0, 0.5)
    with open_journal(tmp_path) as journal:
        journal.add(entry, {})
    path = tmp_path / "jobs.jsonl"
    whole = path.read_bytes()
    for cut in range(1, len(whole)):
        path.write_bytes(whole + whole[:cut].rstrip(b"\n"))
        with open_journal(tmp_path) as again:
            assert list(again.finished) == ["a"]
    with open_journal(tmp_path) as again:
        again.add(replace(entry, id="b"), {})
    with open_journal(tmp_path) as read:
        assert list(read.finished) == ["a", "b"]
    np.testing.assert_array_equal(read.finished["b"].values["map"], [0.5, np.nan])


def test_a_damaged_line_is_an_input_error(tmp_path):
    (tmp_path / "jobs.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="a line is damaged"), open_journal(tmp_path):
        pass


def test_values_keep_every_bit_in_the_journal():
    values = np.array([0.1 + 0.2, np.nan, 1e-300, -0.0])
    assert decoded(encoded(values)).tobytes() == values.tobytes()


def test_two_runs_cannot_share_a_folder_and_a_lock_ends_with_its_process(tmp_path):
    with (
        open_journal(tmp_path),
        pytest.raises(InputError, match="another run"),
        open_journal(tmp_path),
    ):
        pass
    with open_journal(tmp_path):
        pass


def test_an_error_of_a_job_reaches_the_parent(finished_run):
    from prsrank.experiment.inputs import read_source

    spec, *_ = finished_run
    job = Planner(spec, read_source(DATA, 2), "1").job(Cell("linear", "prs", 4000, 1, 0), None)
    for broken, kind in (
        ({"ranker": "no such"}, InputError),
        ({"clicks": {"clicks": 10}}, KeyError),
    ):
        wrong = replace(job, identity={**job.identity, **broken})
        with pytest.raises(kind):
            list(compute_units([[wrong]], 1))


def _killed_run(folder, spec, kills):
    """Kill the runner at random moments; then let it finish."""
    out = folder / "killed"
    command = [sys.executable, str(folder / "program.py"), str(spec), DATA, str(out)]
    rng = random.Random(1)  # noqa: S311
    killed = 0
    for _ in range(kills):
        process = subprocess.Popen(command)
        journal = out / "jobs.jsonl"
        lines, wanted = _lines(journal), rng.randint(0, 4)
        end = time.monotonic() + 120
        while process.poll() is None and _lines(journal) < lines + wanted:
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(rng.random() * 0.05)
        if process.poll() is None:
            killed += 1
        children = _children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        _wait_for_end(children)
    subprocess.run(command, check=True)
    return out, killed


def _lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _children(pid):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.append(int(entry.name))
    return found


def _wait_for_end(pids):
    """No worker outlives its parent."""
    end = time.monotonic() + 20
    while any(_alive(pid) for pid in pids):
        assert time.monotonic() < end, "a worker outlived its parent"
        time.sleep(0.01)


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _kill_test(tmp_path, kills):
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC)
    (tmp_path / "program.py").write_text(PROGRAM)
    out, killed = _killed_run(tmp_path, spec, kills)
    assert killed >= min(kills, 3)
    run_experiments([load_spec(str(spec))], DATA, tmp_path / "whole", processes=0)
    assert (out / FRAME).read_bytes() == (tmp_path / "whole" / FRAME).read_bytes()
    lines = _lines(out / "jobs.jsonl")
    assert lines == _lines(tmp_path / "whole" / "jobs.jsonl")  # nothing was computed twice


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes in /proc")
def test_killed_once_it_ends_with_the_same_table(tmp_path):
    _kill_test(tmp_path, 1)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes in /proc")
def test_killed_ten_times_it_ends_with_the_same_table(tmp_path):
    _kill_test(tmp_path, 10)
