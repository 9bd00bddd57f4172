"""What the steps of a fit hand on to one another."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from prsrank.fit import steps
from prsrank.fit.plan import Plan
from prsrank.logs.pieces import Extent

PLAN = Plan("log.parquet", data="synthetic:mq2007:50", seed=3)


class Found:
    """An evaluation that tells which difference it was asked for."""

    narrowest = "dr"
    estimates = (SimpleNamespace(ranker="ips"), SimpleNamespace(ranker="prs"))

    def difference(self, *asked, **more):
        return asked, more


def test_the_verdict_rests_on_the_chosen_model_s_gain_and_each_part_s_own_clicks(monkeypatch):
    def part(clicks):
        return SimpleNamespace(extent=lambda: Extent(1, 1, clicks, 1))

    validation = SimpleNamespace(counted=lambda docs: ("validation", docs))
    parts = SimpleNamespace(train=part(100), held_out=part(7), validation=validation)
    agreement = SimpleNamespace(of=lambda ranker, sampled: (ranker, sampled[0]))
    monkeypatch.setattr(steps, "Agreement", agreement)
    judged, curves = SimpleNamespace(trees_=5), SimpleNamespace(curve="a curve")
    evaluation = SimpleNamespace(evaluation=Found())
    found = steps._evidence(PLAN, parts, curves, judged, evaluation, "ips")
    assert found.gain == (("ips", "dcg@10"), {"against": "logged", "estimator": "dr"})
    assert (found.learned, found.judged) == (100, 7)
    assert (found.trees, found.curve, found.agreement) == (5, "a curve", (judged, "validation"))


@pytest.fixture
def fitted(monkeypatch):
    """A fit whose steps note what they get; "ips" is chosen, and comes last."""
    noted = {}

    def notes(name, answer):
        def step(*given, **named):
            noted[name] = (*given, *named.values())
            return answer

        monkeypatch.setattr(steps, name, step)

    log = SimpleNamespace(split=lambda how: parts, left_out=0)
    train = SimpleNamespace(posterior="train posterior")
    parts = SimpleNamespace(train=train, validation="validation part")
    tuned = {n: SimpleNamespace(name=n, ranker=f"judged {n}") for n in ("posterior", "ips")}
    notes("_audited", "audit")
    notes("_loaded", log)
    notes("find_propensities", SimpleNamespace(curve="a curve"))
    monkeypatch.setattr(steps, "methods", lambda *_: [SimpleNamespace(name=n) for n in tuned])
    monkeypatch.setattr(steps, "tune", lambda method, *_: tuned[method.name])
    notes("choose", SimpleNamespace(name="ips"))
    notes("_evaluated", "evaluation")
    notes("refit", "model")
    notes("_evidence", "evidence")
    notes("decide", "verdict")
    runner = SimpleNamespace(name="local")
    plan = Plan("log.parquet", data="synthetic:mq2007:50", force=True)
    result = steps._fitted(runner, "source", plan, Path("run"), lambda _: None)
    return SimpleNamespace(result=result, noted=noted, log=log, parts=parts, tuned=tuned)


def test_the_chosen_ranker_is_judged_and_trained_again_on_all_sessions(fitted):
    noted, tuned = fitted.noted, fitted.tuned
    assert noted["choose"][:3] == (fitted.parts, "a curve", tuned)
    assert noted["refit"] == (tuned["ips"], fitted.log, "a curve", "train posterior")
    assert noted["_evaluated"][3:] == (tuned, "ips")
    assert noted["_evidence"][3:] == ("judged ips", "evaluation", "ips")
    assert noted["decide"] == ("evidence", "run", True)
    assert (fitted.result.model, fitted.result.verdict) == ("model", "verdict")


class Part:
    def evaluate(self, curve, rankers, **how):
        return curve, rankers, how


@pytest.mark.parametrize("holdout", ["query:0.2", "randomised"])
def test_rankers_are_judged_on_the_held_out_part_with_its_own_curve(holdout):
    plan = Plan("log.parquet", data="synthetic:mq2007:50", holdout=holdout, seed=9)
    curves = SimpleNamespace(curve="training", judging="judging", context="half")
    tuned = {n: SimpleNamespace(ranker=f"judged {n}") for n in ("posterior", "ips")}
    parts = SimpleNamespace(held_out=Part())  # no other part may be asked
    curve, rankers, how = steps._evaluated(plan, parts, curves, tuned, "ips")
    shuffled = holdout == "randomised"
    assert curve == "judging"
    assert rankers == {"posterior": "judged posterior", "ips": "judged ips"} | (
        {"random": None} if shuffled else {}
    )
    against = ["logged", "posterior", *(["random"] if shuffled else [])]
    assert how == {"against": against, "context": "half", "seed": 9}
