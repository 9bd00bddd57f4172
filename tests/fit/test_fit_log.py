"""From a log to a model: whole fits of small simulated logs."""
# ruff: noqa: S608 -- queries hold paths and ids of these tests

import json
import re
import shutil
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.storage import read_stored
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import DataWarning, InputError
from prsrank.fit import fit_log, outputs, propensities, repeat_fit
from prsrank.logs import stored_pieces
from prsrank.logs.click_log_files import write_events
from prsrank.logs.held_out import hold_out
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import read_click_log
from prsrank.propensity.curve import PowerLaw, Propensities, covering
from prsrank.propensity.randomised import RandomisedEstimator
from prsrank.propensity.tempering import Tempering
from prsrank.propensity.verdict import Verdict
from prsrank.rankers.base import load_ranker

sys.path.insert(0, str(Path(__file__).parents[1] / "evaluation"))
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from estimates import evaluate_counterfactual
from explorer_pages import unpacked

DATA = "synthetic:mq2007:60:2"
QUICK = {"trials": 1, "trees": 15}
# where the methods do not matter: one, and what it is compared with
FEW = {"trials": 1, "trees": 5, "weighting": "prs"}
EVIL = "<script>alert(1)</script>"


def simulated(folder, *, randomised=0.3, sessions=900):
    data = synthetic_dataset("mq2007", 60, seed=2)
    scores = np.random.default_rng(0).normal(size=data.docs)
    model = PositionBasedModel(eta=1, mu=0.05)
    log = simulate_clicks(data, scores, model, sessions=sessions, randomised=randomised, seed=3)
    write_events(log, folder / "log.parquet")
    return folder / "log.parquet"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fit")


@pytest.fixture(scope="module")
def log(folder):
    return simulated(folder)


@pytest.fixture(scope="module")
def fitted(folder, log):
    return fit_log(log, data=DATA, out=folder / "fitted", **QUICK)


@pytest.fixture(scope="module")
def small(folder, log):
    """A fit that is repeated in a second."""
    return fit_log(log, data=DATA, out=folder / "small", propensity="power:1", **FEW)


def feature_table(log, path, names=("x", "y", "z")):
    """Write docs of the log with three features of the data set, under other names."""
    data = synthetic_dataset("mq2007", 60, seed=2)
    lists = np.repeat(data.query_ids, data.list_lengths)
    columns = {"query_id": lists, "doc_id": data.rows_in_list}
    columns |= {name: data.features[:, i].astype(float) for i, name in enumerate(names)}
    return write_table(columns, path)


def write_table(columns, path):
    with duckdb.connect() as connection:
        connection.register("rows", columns)
        connection.sql("SELECT * FROM rows").write_parquet(str(path))
    return path


def test_everything_is_written(fitted):
    made = {str(p.relative_to(fitted.folder)) for p in fitted.folder.rglob("*") if p.is_file()}
    assert made >= {
        *(
            "model/ranker.json",
            "judged/posterior/ranker.json",
            "judged/lightgbm_position/ranker.json",
        ),
        *("propensity.json", "evaluation.json", "manifest.json", "report.html"),
        *("held_out/log.parquet", "held_out/lists"),
    }
    about = load_ranker(fitted.folder / "model").about_
    assert about["weighting"] == fitted.choice.name == "posterior"
    assert about["trained_on"] == "all sessions"
    assert about["propensity"]["propensity"][0] == 1
    assert about["log"] == str(fitted.folder.parent / "log.parquet")


def test_held_out_queries_are_not_learned_from(fitted):
    held_out = set(read_click_log(fitted.folder / "held_out" / "log.parquet").query_ids.tolist())
    learned = set(fitted.parts.train.lists.query_ids.tolist())
    tuned = set(fitted.parts.validation.lists.query_ids.tolist())
    assert held_out == set(fitted.parts.held_out.lists.query_ids.tolist())
    assert not held_out & (learned | tuned)
    assert not learned & tuned


def test_the_least_relevant_label_is_kept_with_lists_and_manifest(folder, log):
    out = folder / "judged"
    fit_log(log, data=DATA, out=out, relevant_from=2.0, ranker="linear", trials=1, weighting="prs")
    lists = read_stored(out / "held_out" / "lists").dataset
    assert lists.relevant_from == 2
    again = repeat_fit(out, out=folder / "judged again")
    assert again.plan.relevant_from == 2
    assert again.differs == ()


def test_a_fit_and_a_split_with_the_same_seed_hold_out_the_same_queries(fitted, log):
    by_hand = hold_out(read_click_log(log), seed=fitted.plan.seed).held_out
    assert by_hand.query_ids.tolist() == sorted(fitted.parts.held_out.lists.query_ids.tolist())


def test_held_out_clicks_change_neither_model_nor_propensities(folder, log, fitted):
    """Move the held-out clicks elsewhere: only the evaluation may change."""
    held_out = ", ".join(map(str, fitted.parts.held_out.lists.query_ids.tolist()))
    changed = folder / "changed.parquet"
    with duckdb.connect() as connection:
        connection.sql(
            f"SELECT * REPLACE (CASE WHEN query_id IN ({held_out}) THEN (position = 2)::BOOLEAN "
            f"ELSE click END AS click) FROM '{log}'"
        ).write_parquet(str(changed))
    other = fit_log(changed, data=DATA, out=folder / "changed", **QUICK)
    for name in ("judged/posterior/model.txt", "judged/ips/model.txt", "propensity.json"):
        assert (other.folder / name).read_bytes() == (fitted.folder / name).read_bytes()
    assert (
        other.manifest["outputs"]["evaluation.json"]
        != fitted.manifest["outputs"]["evaluation.json"]
    )


def test_the_evaluation_is_that_of_the_saved_models_on_the_saved_part(fitted):
    log = read_click_log(fitted.folder / "held_out" / "log.parquet")
    lists = read_stored(fitted.folder / "held_out" / "lists").dataset
    curve = Propensities.load(fitted.folder / "propensity.json")
    scores = {
        name: load_ranker(fitted.folder / "judged" / name).score(lists.features)
        for name in fitted.tuned
    }
    known = evaluate_counterfactual(log, lists, curve, scores, samples=100)
    written = json.loads((fitted.folder / "evaluation.json").read_text())["estimates"]
    for one in written:
        if one["estimator"] not in ("clipped", "dr"):
            other = known.estimate(
                one["ranker"], one["metric"], estimator=one["estimator"], part=one["part"]
            )
            assert one["value"] == pytest.approx(other.value, nan_ok=True)


def test_propensities_come_from_the_randomised_sessions(fitted):
    assert fitted.propensities.how.startswith("randomised")
    assert fitted.propensities.context is None
    p = fitted.propensities.curve.propensity
    assert p[1] == pytest.approx(1 / 2, abs=0.2)
    assert (np.diff(p) <= 0).all()


def test_a_manifest_repeats_the_fit_bit_for_bit(folder, fitted):
    again = repeat_fit(fitted.folder / "manifest.json", out=folder / "again")
    assert again.differs == ()
    for name in ("model/model.txt", "model/ranker.json", "judged/ips/model.txt"):
        assert (again.folder / name).read_bytes() == (fitted.folder / name).read_bytes()
    for name in ("propensity.json", "evaluation.json", "manifest.json"):
        assert (again.folder / name).read_bytes() == (fitted.folder / name).read_bytes()


def test_a_moved_input_will_do_a_changed_one_will_not(log, small, tmp_path):
    moved = tmp_path / "elsewhere.parquet"
    shutil.copy(log, moved)
    assert repeat_fit(small.folder, out=tmp_path / "a", moved={"log": str(moved)}).differs == ()
    simulated(tmp_path, sessions=300)
    changed = {"log": str(tmp_path / "log.parquet")}
    with pytest.raises(InputError, match="has changed since the fit"):
        repeat_fit(small.folder, out=tmp_path / "b", moved=changed)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("moved", [{"propensity": "power:2"}, {"data": "synthetic:mq2007:60:9"}])
def test_a_repeated_fit_keeps_its_settings(fitted, tmp_path, moved):
    with pytest.raises(InputError, match="read no such"):
        repeat_fit(fitted.folder, out=tmp_path / "out", moved=moved)


def test_other_versions_and_other_results_are_warned_of(small, tmp_path):
    manifest = json.loads((small.folder / "manifest.json").read_text())
    manifest["versions"]["numpy"] = "1.0"
    manifest["outputs"]["model/model.txt"] = "0" * 64
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.warns(DataWarning) as said:
        again = repeat_fit(tmp_path / "manifest.json", out=tmp_path / "again")
    assert again.differs == ("model/model.txt",)
    assert any("numpy 1.0 then" in str(one.message) for one in said)
    assert any("not the same as the fit" in str(one.message) for one in said)


def test_features_from_a_table_and_from_columns_give_the_same_model(log, tmp_path):
    table = feature_table(log, tmp_path / "features.parquet")
    options = {**FEW, "propensity": "power:1"}
    by_table = fit_log(log, features=table, out=tmp_path / "table", **options)
    joined = tmp_path / "joined.parquet"
    with duckdb.connect() as connection:
        connection.sql(
            f"SELECT * FROM '{log}' JOIN '{table}' USING (query_id, doc_id)"
        ).write_parquet(str(joined))
    mapping = LogMapping(features=("x", "y", "z"))
    by_column = fit_log(joined, mapping=mapping, out=tmp_path / "column", **options)
    one, other = (load_ranker(fit.folder / "model") for fit in (by_table, by_column))
    assert one.feature_names_ == other.feature_names_ == ("x", "y", "z")
    features = np.random.default_rng(0).normal(size=(200, 3))
    np.testing.assert_array_equal(one.score(features), other.score(features))
    assert set(by_table.manifest["inputs"]) == {"log", "features"}


def test_audit_errors_stop_it_and_nothing_is_written(log, tmp_path):
    bad = tmp_path / "bad.parquet"
    with duckdb.connect() as connection:
        rows = connection.sql(f"SELECT * REPLACE (position - 1 AS position) FROM '{log}'")
        rows.write_parquet(str(bad))
    with pytest.raises(InputError, match="positions-from-zero") as caught:
        fit_log(bad, data=DATA, out=tmp_path / "out", **QUICK)
    assert "\n" not in str(caught.value)
    assert "prsrank audit" in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.parquet"]


def test_a_log_that_identifies_no_propensities_needs_some(tmp_path):
    log = simulated(tmp_path, randomised=0.0, sessions=500)
    with pytest.raises(InputError, match="identifies no propensities: give --propensity"):
        fit_log(log, data=DATA, out=tmp_path / "out", **QUICK)
    assert [p.name for p in tmp_path.iterdir()] == ["log.parquet"]
    made = fit_log(log, data=DATA, out=tmp_path / "out", propensity="power:1", **FEW)
    assert made.propensities.how == "given: power:1"
    expected = PowerLaw(1).at(np.arange(1, made.propensities.curve.positions + 1))
    np.testing.assert_allclose(made.propensities.curve.propensity, expected)


def test_features_tell_relevance_from_position_only_on_demand(tmp_path):
    log = simulated(tmp_path, randomised=0.0, sessions=500)
    table = feature_table(log, tmp_path / "features.parquet")
    joined = tmp_path / "joined.parquet"
    with duckdb.connect() as connection:
        connection.sql(
            f"SELECT * FROM '{log}' JOIN '{table}' USING (query_id, doc_id)"
        ).write_parquet(str(joined))
    options = {"mapping": LogMapping(features=("x", "y", "z")), "out": tmp_path / "out", **FEW}
    with pytest.raises(InputError, match="or regression-em \\(which assumes"):
        fit_log(joined, **options)
    made = fit_log(joined, propensity="regression-em", **options)
    assert "only the features tell relevance from position" in made.propensities.curve.verdict
    p = made.propensities.curve.propensity
    assert p[0] == 1
    assert (np.diff(p) <= 0).all()


def test_a_given_curve_that_the_clicks_contradict_is_tempered(log, tmp_path, monkeypatch):
    options = {"data": DATA, "propensity": "power:2", **FEW}
    made = fit_log(log, out=tmp_path / "out", **options)
    power = made.propensities.power
    k = np.arange(1, made.propensities.curve.positions + 1)
    assert 0.35 < power < 0.7  # eta 1 is true
    np.testing.assert_allclose(made.propensities.curve.propensity, (1 / k) ** (2 * power))
    check = made.manifest["chosen"]["curve_check"]
    assert check["used"] == check["followed"] == power
    said = f"its power {power:.2f} is used"
    assert made.propensities.check.endswith(said)
    assert said in (tmp_path / "out" / "report.html").read_text()
    saved = Propensities.load(tmp_path / "out" / "propensity.json")
    np.testing.assert_array_equal(saved.propensity, made.propensities.curve.propensity)
    assert f"raised to the power {power:.2f}" in saved.verdict
    # the same judge where the log does not fit the memory given
    monkeypatch.setattr(stored_pieces, "BYTES_PER_EVENT", 100_000)
    cut = fit_log(log, out=tmp_path / "cut", memory="1GB", **options)
    assert len(list(cut.parts.learning.pieces)) > 3
    assert cut.propensities.judged.to_json_dict() == made.propensities.judged.to_json_dict()
    as_given = fit_log(log, out=tmp_path / "given", temper=False, **options)
    np.testing.assert_allclose(as_given.propensities.curve.propensity, (1 / k) ** 2)
    assert as_given.manifest["chosen"]["curve_check"] is None


def test_a_curve_of_an_experiment_is_judged_but_left_as_it_is(fitted, monkeypatch):
    assert fitted.propensities.firm
    assert fitted.propensities.judged is not None
    flatter = Tempering(0.5, 0.4, 0.6, True, 0.3, (0, np.inf), 1.0, np.ones(1), np.ones(1))
    monkeypatch.setattr(propensities, "temper_sampled", lambda *given, **options: flatter)
    judged = fitted.propensities.judge(fitted.parts.learning, 0)
    assert judged.power == 1
    assert judged.curve is fitted.propensities.curve
    assert judged.warning.endswith("left as it is, for it does not rest on features")
    weak = replace(judged, firm=False, judged=None).judge(fitted.parts.learning, 0)
    np.testing.assert_allclose(weak.curve.propensity, judged.curve.propensity**0.5)
    assert weak.judging is weak.curve
    assert weak.warning == ""
    far = replace(flatter, power=0.06, low=0.05, high=0.07)
    monkeypatch.setattr(propensities, "temper_sampled", lambda *given, **options: far)
    em = replace(judged.curve, method="regression-em", verdict=Verdict("weak: few clicks"))
    with pytest.raises(InputError, match=r"regression-em: not identified: .* its power 0.06"):
        replace(judged, curve=em, firm=False).judge(fitted.parts.learning, 0)


def test_a_curve_by_the_likelihood(log, tmp_path):
    made = fit_log(log, data=DATA, out=tmp_path / "out", propensity="likelihood", **FEW)
    assert made.propensities.how.startswith("likelihood, from the")
    assert not made.propensities.firm
    p = made.propensities.curve.propensity
    np.testing.assert_allclose(p[:5], 1 / np.arange(1, 6), atol=0.15)


@pytest.mark.parametrize("step", ["tune", "write_results"])
def test_an_interrupted_fit_leaves_nothing(log, tmp_path, monkeypatch, step):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"prsrank.fit.steps.{step}", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit_log(log, data=DATA, out=tmp_path / "out", **FEW)
    assert list(tmp_path.iterdir()) == []


def test_only_an_earlier_fit_is_replaced(log, fitted, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(InputError, match="other things in it"):
        fit_log(log, data=DATA, out=tmp_path / "mine", **QUICK)
    shutil.copytree(fitted.folder, tmp_path / "fit")
    (tmp_path / "fit" / "stale").write_text("")
    fit_log(log, data=DATA, out=tmp_path / "fit", ranker="linear", trials=1, weighting="prs")
    assert not (tmp_path / "fit" / "stale").exists()
    assert load_ranker(tmp_path / "fit" / "model").name == "linear"


def test_randomised_sessions_are_judged_with_the_other_half_s_curve(log, folder, tmp_path):
    data = synthetic_dataset("mq2007", 60, seed=2)
    whole = read_click_log(log)
    # shuffled sessions of half of the queries, ordinary ones of the others
    first = np.isin(whole.query_ids, data.query_ids[:30])[whole.ranking_query]
    shuffled = whole.ranking_design > 0
    part = whole.select((first == shuffled)[whole.session_ranking])
    write_events(part, tmp_path / "log.parquet")
    made = fit_log(
        tmp_path / "log.parquet", data=DATA, out=tmp_path / "out", holdout="randomised", **FEW
    )
    held_out, _ = made.parts.held_out.sessions.in_memory()
    assert held_out.sessions == int((first & shuffled)[whole.session_ranking].sum())
    assert made.parts.dropped_sessions == 0
    used = made.propensities
    assert used.context is not None
    halves = held_out.contexts[used.context]
    for code, name in enumerate(halves.values):
        other = held_out.select(halves.codes != code)
        curve = covering(
            RandomisedEstimator(shape="monotone").estimate(other), used.curve.positions
        )
        np.testing.assert_array_equal(used.judging.contexts[name].propensity, curve.propensity)
        own, its = (set(held_out.select(halves.codes == c).query_ids) for c in (0, 1))
        assert not own & its
    check = made.evaluation.evaluation.difference("random", "dcg@10", against="logged")
    assert check.low < 0 < check.high
    assert "random order" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("holdout", "weighting"), [("query:0.2", "prs"), ("query:0.4", "posterior")]
)
def test_a_fit_in_pieces_is_the_fit_in_memory(log, monkeypatch, holdout, weighting, tmp_path):
    """A log that does not fit the memory given: same parts, curve, trees and estimates."""
    settings = FEW | {"data": DATA, "holdout": holdout, "weighting": weighting}
    whole = fit_log(log, out=tmp_path / "whole", **settings)
    monkeypatch.setattr(stored_pieces, "BYTES_PER_EVENT", 100_000)
    cut = fit_log(log, out=tmp_path / "cut", memory="1GB", **settings)
    assert len(list(cut.parts.train.pieces)) > 3
    assert cut.parts.counts() == whole.parts.counts()
    lists = cut.parts.held_out.lists
    assert weighting in cut.tuned
    for name in cut.tuned:
        one, other = (made.tuned[name].ranker.score(lists.features) for made in (cut, whole))
        np.testing.assert_allclose(one, other, rtol=1e-9)
    np.testing.assert_allclose(
        cut.propensities.curve.propensity, whole.propensities.curve.propensity, rtol=1e-9
    )
    estimates = zip(
        cut.evaluation.evaluation.estimates, whole.evaluation.evaluation.estimates, strict=True
    )
    for one, other in estimates:
        assert (one.value, one.low, one.high) == pytest.approx(
            (other.value, other.low, other.high), rel=1e-9, nan_ok=True
        )


class Page(HTMLParser):
    """Collects the tags of a page that are not closed as they should be, and its scripts."""

    void = ("meta", "link", "br", "hr", "img", "input", "col", "path", "use", "source")

    def __init__(self):
        super().__init__()
        self.open, self.text, self.scripts = [], [], 0

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def page_of(file):
    page = Page()
    page.feed(file.read_text(encoding="utf-8"))
    assert page.open == []
    return page


def test_the_report_parses_and_says_what_was_found(fitted):
    page = page_of(fitted.folder / "report.html")
    text = " ".join(page.text)
    for words in ("The log", "Propensities", "Training", "Estimated gain", "Chosen settings"):
        assert words in text
    # the verdict, what it rests on and what to run next come before all else
    first = [text.index(words) for words in (
        fitted.verdict.title, "Posterior against the logged ranking", fitted.verdict.next_command,
        "Estimated gain in dcg@10 on held-out clicks", "The log",
    )]  # fmt: skip
    assert first[:-1] == sorted(first[:-1])
    assert first[3] < text.index("sessions of")


def test_held_out_queries_can_be_looked_at(fitted, log):
    report = (fitted.folder / "report.html").read_text()
    assert '<a href="explore.html">Look at the queries</a>' in report
    page = (fitted.folder / "explore.html").read_text()
    held_out = read_click_log(fitted.folder / "held_out" / "log.parquet")
    meta, _ = unpacked(re.search(r'id="explored"[^>]*>([^<]*)<', page)[1])
    assert sorted(meta["queries"]) == sorted(map(str, held_out.query_ids.tolist()))
    assert meta["rankers"][0][0] == fitted.choice.name
    assert {name for name, _ in meta["rankers"]} == set(fitted.tuned)


def test_of_many_held_out_docs_some_queries_are_looked_at(fitted, monkeypatch):
    log, lists = fitted.parts.held_out.sessions.in_memory()
    monkeypatch.setattr(outputs, "MOST_DOCS", lists.docs // 2)
    page = outputs._explorer_page(fitted, log, lists)
    meta, _ = unpacked(re.search(r'id="explored"[^>]*>([^<]*)<', page)[1])
    assert 0 < len(meta["queries"]) < log.queries


def test_html_in_ids_and_feature_names_is_escaped(log, fitted, tmp_path):
    table = feature_table(log, tmp_path / "plain.parquet", names=(EVIL, "y", "z"))
    paths = {"log": tmp_path / "log.parquet", "table": tmp_path / "table.parquet"}
    with duckdb.connect() as connection:
        for source, path in ((log, paths["log"]), (table, paths["table"])):
            connection.sql(
                f"SELECT * REPLACE ('{EVIL}' || query_id AS query_id) FROM '{source}'"
            ).write_parquet(str(path))
    out = tmp_path / "out"
    fit_log(paths["log"], features=paths["table"], out=out, propensity="power:1", **FEW)
    page = page_of(out / "report.html")
    assert page.scripts == page_of(fitted.folder / "report.html").scripts
    assert EVIL not in (out / "report.html").read_text()
    assert EVIL not in (out / "explore.html").read_text()


def test_the_model_is_the_judged_one_trained_again_on_all_sessions(fitted, log):
    judged = fitted.tuned[fitted.choice.name].ranker
    assert fitted.model.trees_ == judged.trees_
    assert fitted.model.get_params() == judged.get_params() | {"trees": judged.trees_}
    lists = synthetic_dataset("mq2007", 60, seed=2)
    clicks = read_click_log(log)
    again = judged.unfitted()
    used = fitted.tuned[fitted.choice.name]
    pairs = again.pairs(
        clicks, lists, fitted.propensities.curve, used.method.weighting,
        parameters=used.chosen.candidate.parameters,
    )  # fmt: skip
    again.fit(lists, pairs)
    assert again.score(lists.features) == pytest.approx(fitted.model.score(lists.features))
    assert not np.allclose(again.score(lists.features), judged.score(lists.features))
    saved = load_ranker(fitted.folder)
    assert saved.learned_from(fitted.folder / "held_out" / "log.parquet")
    kept = load_ranker(fitted.folder / "judged" / fitted.choice.name)
    assert not kept.learned_from(fitted.folder / "held_out" / "log.parquet")
