"""The same rows in another order, in other files or on other cores give the same bits."""

import json
import os
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from prsrank import audit_log, evaluate_on_log, fit_log, read_log
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.logs.mapping import LogMapping
from prsrank.propensity.context import estimate_by_context
from prsrank.propensity.curve import covering
from prsrank.propensity.estimators import ESTIMATORS, estimator

MAPPING = LogMapping(features=("f*",), contexts=("device",))


def events():
    """A log with everything that is summed: several rankers, weights, contexts, text ids."""
    data = synthetic_dataset("mq2007", 50, seed=2)
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=data.docs) for _ in range(3)]
    model = PositionBasedModel(eta=1, mu=0.05, cutoff=10)
    log = simulate_clicks(data, scores, model, sessions=700, randomised=0.3, seed=3)
    rows = log.to_frame()
    rows["weight"] = np.where(rows["click"], rng.choice([0.1, 1.0, 3.3], len(rows)), 0.0)
    rows["device"] = np.where(rows["session_id"] % 3 == 0, "phone", "desk")
    lists = data.to_frame().drop(columns="label", errors="ignore")
    names = {name: f"f{name}" for name in data.feature_names[:6]}
    kept = lists[["query_id", "doc_id", *names]].rename(columns=names)
    rows = rows.merge(kept, on=["query_id", "doc_id"])
    for name in ("query_id", "session_id", "doc_id"):
        rows[name] = name[0] + rows[name].astype(str)
    return rows


VARIANTS = {
    # rows shuffled, number of files, cores
    "as it is": (False, 1, 1),
    "other cores": (False, 1, 3),
    "shuffled": (True, 1, 1),
    "files": (True, 4, 2),
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    rows, folder = events(), tmp_path_factory.mktemp("logs")
    found = {}
    for number, (name, (shuffled, files, cores)) in enumerate(VARIANTS.items()):
        mixed = rows.sample(frac=1, random_state=number) if shuffled else rows
        path = folder / f"log{number}"
        path.mkdir()
        for part, some in enumerate(np.array_split(np.arange(len(mixed)), files)):
            mixed.iloc[some].to_parquet(path / f"{part}.parquet", index=False, row_group_size=500)
        found[name] = path, cores
    return found


def bits(value):
    """Return what can be compared bit for bit, of numbers in whatever they are in."""
    return json.loads(json.dumps(value, default=str), parse_float=str)


@pytest.fixture
def of_variants(logs, monkeypatch):
    def run(function):
        found = {}
        for name, (path, cores) in logs.items():
            monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=cores: range(n))
            with threadpool_limits(limits=cores, user_api="blas"):
                found[name] = bits(function(path))
        first = found.pop("as it is")
        for name, other in found.items():
            assert other == first, name
        assert first

    return run


def test_logs(of_variants):
    def read(path):
        log, lists = read_log(path, mapping=MAPPING)
        of_log = {n: np.asarray(v).tolist() for n, v in vars(log).items() if n != "contexts"}
        return of_log, lists.features.tolist(), lists.query_ids.tolist()

    of_variants(read)


def test_audits(of_variants):
    def run(path):
        found = audit_log(path, mapping=MAPPING)
        return found.to_dict()

    of_variants(run)


@cache
def read_once(path):
    """The log of a variant, which `test_logs` finds the same in all of them."""
    return read_log(path, mapping=MAPPING)


@pytest.mark.parametrize("method", ESTIMATORS)
@pytest.mark.parametrize("shape", [None, "monotone"])
def test_curves(method, shape, of_variants):
    def run(path):
        log, lists = read_once(path)
        chosen = estimator(method)
        if hasattr(chosen, "shape"):
            chosen = replace(chosen, shape=shape)
        curve = chosen.estimate(log, dataset=lists if chosen.uses_features else None, seed=5)
        covariance = None if curve.covariance is None else curve.covariance.tolist()
        by_device = estimate_by_context(log, chosen, "device", seed=5)
        return curve.to_json_dict(), covariance, by_device.to_json_dict()

    of_variants(run)


def test_evaluations(of_variants):
    def run(path):
        log, lists = read_once(path)
        curve = covering(estimator("harvest").estimate(log), log.max_position)
        scores = {"a": lists.features[:, 0], "b": lists.features[:, 1]}
        found = evaluate_on_log(log, lists, curve, scores, against="a", seed=1)
        return found.to_json_dict()

    of_variants(run)


@pytest.mark.slow
def test_fits(of_variants, tmp_path):
    def run(path):
        out = tmp_path / path.name
        fit_log(path, mapping=MAPPING, out=out, trials=1, trees=15, force=True)
        files = [out / "evaluation.json", out / "propensity.json", *out.glob("**/model.txt")]
        assert len(files) > 4
        return {str(file.relative_to(out)): file.read_text() for file in files}

    of_variants(run)
