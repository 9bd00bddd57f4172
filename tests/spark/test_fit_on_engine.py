"""fit, train, propensity and audit with --engine spark on the command line."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from prsrank.logs.log_split import LogSplit
from spark_checks import fitted

from prsrank.cli import run
from prsrank.data.collections import load_dataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.evaluation.counterfactual import CounterfactualMetric
from prsrank.evaluation.log_evaluation import evaluate_on_log
from prsrank.fit.tuning import METRIC, VALIDATION_TAU, tune
from prsrank.logs.features import lists_of_log
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import click_log
from prsrank.propensity.curve import PowerLaw, Propensities
from prsrank.rankers.base import load_ranker
from prsrank.spark import find_engine
from prsrank.spark.session import find_java

FEATURES = ("f1", "f2", "f3")
MAPPING = LogMapping(features=FEATURES)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log with features as columns, a fifth of it in random order."""
    import pandas as pd

    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.logs.click_log_files import write_events

    folder = tmp_path_factory.mktemp("log")
    data = synthetic_dataset("personal", 120)
    rng = np.random.default_rng(0)
    shown = data.relevance * 0.5 + rng.normal(size=data.docs)
    clicks = simulate_clicks(
        data, shown, PositionBasedModel(eta=1, mu=0.1), clicks=4000, randomised=0.2
    )
    write_events(clicks, folder / "plain.parquet")
    events = pd.read_parquet(folder / "plain.parquet")
    values = np.round(data.relevance[:, None] + rng.normal(size=(data.docs, 3)), 1)
    lists = np.repeat(np.arange(data.lists), data.list_lengths)
    rows = np.arange(data.docs) - data.offsets[lists]
    table = pd.DataFrame(values, columns=list(FEATURES))
    table["query_id"], table["doc_id"] = data.query_ids[lists], rows
    events.merge(table, on=["query_id", "doc_id"]).to_parquet(folder / "log.parquet")
    return folder / "log.parquet"


@pytest.mark.parametrize("ranker", ["lambdamart", "linear"])
def test_on_the_local_engine(log, tmp_path, ranker):
    out = tmp_path / "run"
    with find_engine("local") as engine:
        result = fitted(engine, log, out=out, mapping=MAPPING, trees=10, trials=4, ranker=ranker)
    assert 4000 <= result.counts["clicks"] < 4020  # the last session may have several
    counts = result.parts.counts().values()
    assert sum(part["clicks"] for part in counts) == result.counts["clicks"]
    assert result.propensities.curve.method == "randomised"
    for name, one in result.tuned.items():
        assert len(one.trials) == 4
        assert one.chosen.value == max(trial.value for trial in one.trials)
        assert {"tau" in trial.weighting_parameters for trial in one.trials} == {name == "ips"}
    model = load_ranker(out)
    assert model.feature_names_ == FEATURES
    assert load_ranker(out / "others" / "naive").about_["weighting"] == "naive"
    assert (out / "report.html").stat().st_size > 10_000

    written = json.loads((out / "fit.json").read_text())
    assert written["settings"]["trials"] == 4
    assert (written["engine"], written["ranks"]) == ("local", 1)
    assert written["chosen"]["rankers"].keys() == written["trials"].keys() == result.tuned.keys()
    assert written["versions"]["prsrank"]
    evaluation = json.loads((out / "evaluation.json").read_text())
    parts = {one["part"] for one in evaluation["estimates"]}
    assert parts == {"all", "clicked at top", "clicked at others"}
    assert {one["against"] for one in evaluation["differences"]} == {"logged", "ips", "naive"}


def test_tuned_values_are_those_of_the_local_fit(log, tmp_path):
    """The same parts, given to the tuning and the evaluation of `fit_log`."""
    with find_engine("local") as engine:
        result = fitted(
            engine, log, out=tmp_path / "run", mapping=MAPPING, trees=10, trials=2,
            propensity="power:1", seed=1,
        )  # fmt: skip
        with engine.open_log(log, mapping=MAPPING) as events:
            parts = engine.split(events, LogSplit())
            train, judged, held_out = (
                (click_log(part), lists_of_log(part))
                for part in (parts.train, parts.validation, parts.held_out)
            )
    curve = PowerLaw(1.0)
    metric = CounterfactualMetric(*judged, curve, metric=METRIC, tau=VALIDATION_TAU)
    scores = {}
    for name, one in result.tuned.items():
        known = tune(
            name, *train, curve, (judged[1], metric),
            ranker="lambdamart", trials=2, trees=10, seed=1, tell=lambda _: None,
        )  # fmt: skip
        assert [trial.value for trial in one.trials] == pytest.approx(
            [trial.value for trial in known.trials], rel=1e-9
        )
        assert one.chosen.settings == known.chosen.settings
        scores[name] = known.ranker.score(held_out[1].features)
    again = evaluate_on_log(*held_out, curve, scores, against=["logged", "ips", "naive"], seed=1)
    assert again.evaluation.estimates == result.evaluation.evaluation.estimates
    assert again.warnings == result.evaluation.warnings


def test_propensities_in_the_log_are_used(log, tmp_path):
    import pandas as pd

    events = pd.read_parquet(log)
    events["propensity"] = 1 / events["position"]
    path = tmp_path / "log.parquet"
    events.to_parquet(path)
    with find_engine("local") as engine:
        own, given = (
            fitted(
                engine,
                file,
                out=tmp_path / name,
                mapping=MAPPING,
                trees=5,
                trials=1,
                propensity=name,
            )
            for file, name in ((path, "auto"), (log, "power:1"))
        )
    assert own.propensities.how == "those in the log"
    assert not (tmp_path / "auto" / "propensity.json").exists()
    values = [[e.value for e in one.evaluation.evaluation.estimates] for one in (own, given)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_what_is_refused(log, tmp_path, capsys):
    with find_engine("local") as engine:

        def refused(words, *, mapping=MAPPING, out=tmp_path / "a", **options):
            with pytest.raises(InputError, match=words):
                fitted(engine, log, out=out, mapping=mapping, **options)

        refused("columns of the log", mapping=LogMapping())
        refused("not 'svm'", ranker="svm")
        refused("no fit on an engine", out=tmp_path)
        refused("time:SHARE is for the local engine", holdout="time:0.2")
        refused("the log has no propensities", propensity="log")
        refused("every query has randomised sessions", holdout="randomised")
    assert not list(tmp_path.iterdir())
    for option in (["--from", "x"], ["--memory", "1GB"]):
        arguments = [*option, "--engine", "spark", "--out", str(tmp_path / "a")]
        assert run(["fit", str(log), *arguments]) == 2
    capsys.readouterr()
    assert run(["fit", str(log), "--master", "local[2]", "--out", str(tmp_path / "a")]) == 2
    assert capsys.readouterr().err == "prsrank: error: --master is for --engine spark\n"


@pytest.mark.spark
def test_the_commands_on_spark(log, tmp_path, capsys):
    pytest.importorskip("pyspark")
    try:
        find_java()
    except InputError as error:
        pytest.skip(str(error))
    on = ["--engine", "spark", "--master", "local[2]"]
    assert run(["audit", str(log), "--json", "--spark", "local[2]"]) == 0
    there = json.loads(capsys.readouterr().out)
    ours = ["--spark", "local[2]"]
    assert run(["audit", str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == there

    here, there = tmp_path / "here.json", tmp_path / "there.json"
    method = ["--method", "randomised"]
    assert run(["propensity", str(log), *method, "--out", str(here)]) == 0
    assert run(["propensity", str(log), *method, "--out", str(there), *ours]) == 0
    assert np.array_equal(
        Propensities.load(here).propensity, Propensities.load(there).propensity, equal_nan=True
    )

    plain = ["--data", "synthetic:personal:120", "--propensity", "power:1", "--ranker", "linear"]
    clicks = tmp_path / "clicks.parquet"
    simulated = ["simulate", "synthetic:personal:120", "--clicks", "1000", "--out", str(clicks)]
    assert run(simulated) == 0
    assert run(["train", str(clicks), *plain, "--no-report", "--out", str(tmp_path / "a")]) == 0
    assert (
        run(["train", str(clicks), *plain, "--no-report", "--out", str(tmp_path / "b"), *ours]) == 0
    )
    x = load_dataset("synthetic:personal:120", "test").features
    scores = [load_ranker(tmp_path / name).score(x) for name in "ab"]
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=1e-6)

    toml = tmp_path / "log.toml"
    toml.write_text(f"[features]\ncolumns = {json.dumps(FEATURES)}\n")
    fit = ["fit", str(log), "--mapping", str(toml), "--trees", "5", "--trials", "1", *on]
    capsys.readouterr()
    assert run([*fit, "--holdout", "query:0.3", "--json", "--out", str(tmp_path / "run")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert load_ranker(tmp_path / "run").booster_.num_trees() <= 5
    assert told["rankers"].keys() == {"prs", "ips", "naive"}
    assert told["parts"]["held out"]["clicks"] > 0
    assert told["conclusions"][0].startswith("PRS against the logged ranking: dcg@10")
    assert "pyspark" in json.loads((tmp_path / "run" / "fit.json").read_text())["versions"]
