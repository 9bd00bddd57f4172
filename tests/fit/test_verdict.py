"""What to do with a fit: a row for each rule."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from scipy.stats import kendalltau

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.evaluation.results import Difference
from prsrank.fit.verdict import RULES, Agreement, Evidence, decide
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.counted_clicks import SampledClicks
from prsrank.propensity.curve import Propensities


def gain(difference, low, high):
    return Difference("all", "dcg@10", "ips", "prs", "logged", difference, low, high, 0.01, 0.031)


def curve(clicks, method="harvest"):
    p = np.ones(3)
    return Propensities(p, p, p, np.array(clicks), "weak: ...", method)


GOOD = Evidence(
    learned=5000,
    judged=900,
    gain=gain(0.1, 0.05, 0.15),
    baseline="the logged ranking",
    trees=80,
    agreement=Agreement(0.4, 0.02),
    curve=curve([50, 20, 0]),
)

CASES = {
    "few-clicks": ({"learned": 99}, "too-thin"),
    "unsupported-curve": ({"curve": curve([50, 0, 0])}, "too-thin"),
    "constant-scores": ({"agreement": Agreement(nan, nan)}, "too-thin"),
    "reversed-order": ({"agreement": Agreement(-0.2, 0.05)}, "too-thin"),
    "no-interval": ({"gain": gain(0.1, -inf, inf)}, "too-thin"),
    "random-only": ({"gain": replace(gain(0.1, 0.05, 0.15), against="random")}, "no-difference"),
    "gain-shown": ({}, "test-online"),
    "one-tree": ({"trees": 1, "gain": gain(0.1, -0.1, 0.3)}, "too-thin"),
    "loss-shown": ({"gain": gain(-0.2, -0.3, -0.1)}, "no-difference"),
    "no-difference": ({"gain": gain(0.1, -0.1, 0.3)}, "no-difference"),
}


def test_every_rule_has_a_case():
    assert [rule.name for rule in RULES] == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_and_its_verdict(name):
    changed, verdict = CASES[name]
    found = decide(replace(GOOD, **changed), run="a run")
    assert (found.rule, found.verdict) == (name, verdict)
    assert found.ships == (verdict != "too-thin")
    assert found.reason
    assert "'a run'" in found.next_command


@pytest.mark.parametrize("few", [{"learned": 99}, {"judged": 49}])
def test_too_few_clicks_on_either_side_are_too_thin(few):
    assert decide(replace(GOOD, **few), run="run").rule == "few-clicks"


@pytest.mark.parametrize(
    "changed",
    [
        {"judged": 50, "learned": 100},
        {"curve": curve([0, 0, 0], "known")},  # given, and the user's to answer for
        {"curve": None},
        {"agreement": Agreement(-0.05, 0.05)},  # chance, as on shuffled lists
        {"agreement": None},
        {"trees": 1},  # one tree that gains is a model
        {"trees": None},
    ],
)
def test_what_is_no_reason_against_a_test(changed):
    assert decide(replace(GOOD, **changed), run="run").verdict == "test-online"


def test_the_next_command_of_a_gain_plans_a_test_of_it():
    assert decide(GOOD, run="run").next_command == "prsrank plan test run --gain 0.031"


def test_force_ships_what_is_too_thin_and_says_so():
    thin = replace(GOOD, learned=5)
    assert not decide(thin, run="run").ships
    forced = decide(thin, run="run", forced=True)
    assert forced.ships
    assert forced.to_json_dict()["verdict"] == "too-thin"
    assert forced.to_json_dict()["forced"]
    assert not decide(GOOD, run="run", forced=True).forced


class Scores:
    """A ranker of one feature."""

    def __init__(self, sign):
        self.sign = sign

    def score(self, features):
        return self.sign * features[:, 0]


def test_agreement_is_that_of_the_mean_positions():
    data = synthetic_dataset("mq2007", 20)
    log = simulate_clicks(data, data.features[:, 0], PositionBasedModel(), sessions=300)
    sampled = SampledClicks.of(log, data, 1.0)
    same, other = Agreement.of(Scores(1), sampled), Agreement.of(Scores(-1), sampled)
    assert same.tau > 0.9  # ties of the feature keep it below 1
    assert other.tau == pytest.approx(-same.tau)
    lists, _ = sampled.parts[0]
    by_list = []
    for q, docs in enumerate(np.split(np.arange(lists.docs), lists.offsets[1:-1])):
        ranking = np.flatnonzero(
            log.ranking_query == np.flatnonzero(log.query_ids == lists.query_ids[q])[0]
        )[0]
        slots = slice(*log.ranking_offsets[ranking : ranking + 2])
        rows = log.doc_rows(lists)[log.ranking_docs[slots]]
        if np.ptp(lists.features[docs, 0]):
            by_list.append(
                kendalltau(lists.features[rows, 0], -log.ranking_positions[slots]).statistic
            )
    assert same.tau == pytest.approx(np.mean(by_list))
    assert Agreement.of(Scores(0), sampled).tau != Agreement.of(Scores(0), sampled).tau  # NaN


def test_mean_positions_are_those_over_impressions():
    """Doc 0 was once at position 1 and three times at 3, doc 1 the other way round."""
    lists = RankingDataset(np.array([[2.0], [1.0], [0.0]]), np.array([0, 3]), np.array([7]))
    orders = [[0, 2, 1], *[[1, 2, 0]] * 3]
    log = ClickLog.from_frame(
        {
            "query_id": np.full(12, 7),
            "session_id": np.repeat(np.arange(4), 3),
            "doc_id": np.concatenate(orders),
            "position": np.tile([1, 2, 3], 4),
            "click": np.arange(12) == 0,
        }
    )
    sampled = SampledClicks.of(log, lists, 1.0)
    # means 2.5, 1.5 and 2: by the feature the last is second, so that one pair of three agrees
    assert Agreement.of(Scores(1), sampled).tau == pytest.approx(-1 / 3)
