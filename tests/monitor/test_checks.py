"""Each check raises an alarm over the change it is for, and over nothing else none."""

from dataclasses import replace

import numpy as np
import pytest

from prsrank import ClickLog, LogMapping, load_ranker
from prsrank.fit.log import PiecedLog
from prsrank.logs.features import known_lists
from prsrank.monitor.checks import CHECKS, FALSE_ALARMS, HORIZON, _shares, is_live, judge, level
from prsrank.monitor.monitoring import _plan_of, _reference, _watched
from prsrank.monitor.ratios import Curve, Power, Ratio
from prsrank.monitor.summary import Gain, summarise


@pytest.fixture(scope="module")
def watch(run):
    """The reference of a run, and what its windows are measured with."""
    plan = _plan_of(run)
    watched = _watched(run, plan)
    reference = _reference(run, plan, watched)
    return reference, reference.watching(watched)


@pytest.fixture(scope="module")
def lists(run):
    from prsrank import load_dataset

    return load_dataset("synthetic:personal:200")


def local(log, lists):
    return PiecedLog.of([log], known_lists(log, lists))


@pytest.fixture(scope="module")
def judged(watch, lists):
    """Judge a log as one window; returns the verdict and the checks with an alarm."""
    reference, watched = watch

    def found(log, lists=lists, number=1):
        window = judge(summarise(local(log, lists), watched, "w"), reference, number)
        return window.verdict, [reason.check for reason in window.reasons]

    return found


@pytest.fixture(scope="module")
def quiet(watch, sessions, lists):
    """The statistics of a window without a change."""
    return summarise(local(sessions(1500, 2), lists), watch[1], "quiet")


@pytest.mark.parametrize("seed", [2, 3])
def test_without_a_change_all_is_fine(judged, sessions, seed):
    assert judged(sessions(1500, seed)) == ("fine", [])


def test_a_steeper_curve_calls_for_training(judged, sessions):
    verdict, checks = judged(sessions(1500, 4, eta=1.6))
    assert verdict == "retrain"
    assert "fall" in checks
    assert "order" not in checks


def test_another_ranker_is_looked_at(judged, sessions):
    verdict, checks = judged(sessions(1500, 5, ranker=1))
    assert verdict == "look"
    assert checks[0] == "order"
    assert "gain" not in checks


def test_lost_positions_are_looked_at_and_explain_the_rest(judged, sessions):
    frame = sessions(1500, 6).to_frame()
    verdict, checks = judged(ClickLog.from_frame(frame[frame.position <= 4]))
    assert verdict == "look"
    assert "lengths" in checks


def test_lost_rows_are_gaps(judged, sessions):
    frame = sessions(1500, 6).to_frame()
    lost = (np.random.default_rng(1).uniform(size=len(frame)) < 0.02) & (frame.click == 0)
    assert "gaps" in judged(ClickLog.from_frame(frame[~lost]))[1]


def test_lists_that_begin_late_are_gaps(judged, sessions):
    frame = sessions(1500, 6).to_frame()
    late = (frame.session_id % 20 == 0) & (frame.position == 1)
    assert "gaps" in judged(ClickLog.from_frame(frame[~late]))[1]


@pytest.mark.parametrize("change", [lambda x: 2 * x, lambda x: x * np.nan])
def test_a_feature_in_another_unit_or_missing_calls_for_training(
    judged, sessions, lists, watch, change
):
    name = next(iter(watch[0].edges))
    features = lists.features.copy()
    features[:, lists.feature_names.index(name)] = change(
        features[:, lists.feature_names.index(name)]
    )
    verdict, checks = judged(sessions(1500, 7), replace(lists, features=features))
    assert verdict == "retrain"
    assert checks[0] == "features"


def test_a_feature_that_the_model_does_not_use_may_change(judged, sessions, lists, watch):
    unused = [n for n in lists.feature_names if n not in watch[0].edges]
    features = lists.features.copy()
    for name in unused:
        features[:, lists.feature_names.index(name)] = 7
    assert unused
    assert judged(sessions(1500, 2), replace(lists, features=features)) == ("fine", [])


def test_robots_that_click_all_are_looked_at(judged, sessions):
    frame = sessions(1500, 8).to_frame()
    frame.loc[frame.session_id % 25 == 0, "click"] = True
    verdict, checks = judged(ClickLog.from_frame(frame))
    assert verdict == "look"
    assert "greedy" in checks


def test_fewer_randomised_sessions_are_looked_at(judged, sessions):
    assert "randomised" in judged(sessions(1500, 9, randomised=0.05))[1]


def test_more_clicks_at_every_position_are_looked_at(judged, sessions):
    log = sessions(3000, 11)
    kept = log.select((log.session_clicks > 0) | (np.arange(log.sessions) % 3 == 0))
    verdict, checks = judged(kept)
    assert verdict == "look"
    assert "clicks" in checks


def names_of(now, reference):
    return [reason.check for reason in judge(now, reference, 1).reasons]


def test_a_gain_that_is_gone_calls_for_training(watch, quiet):
    gain = Gain(0.2, 0.16, 0.24, 1.0)
    reference = replace(watch[0], gain=gain)
    assert names_of(replace(quiet, gain=gain), reference) == []
    assert names_of(replace(quiet, gain=Gain(0.19, 0.18, 0.20, 1.0)), reference) == []
    gone = Gain(0.02, -0.02, 0.06, 1.0)
    assert names_of(replace(quiet, gain=gone), reference) == ["gain"]
    assert names_of(replace(quiet, gain=Gain(0.9, 0.8, 1.0, 1.0)), reference) == []


def test_another_power_of_the_curve_calls_for_training(watch, quiet):
    reference = replace(watch[0], summary=replace(watch[0].summary, power=Power(1.0, 0.05)))
    assert names_of(replace(quiet, power=Power(1.2, 0.05)), reference) == []
    assert names_of(replace(quiet, power=Power(1.5, 0.05)), reference) == ["likelihood"]
    assert names_of(replace(quiet, power=Power(1.5, 0.3)), reference) == []


def test_another_curve_of_the_same_method_calls_for_training(watch, quiet):
    def curve(eta):
        p = [k**-eta for k in range(1, 11)]
        return Curve("harvest", p, [0.96 * x for x in p], [1.04 * x for x in p], [99] * 10)

    reference = replace(watch[0], summary=replace(watch[0].summary, curve=curve(1.0)))
    assert names_of(replace(quiet, curve=curve(1.1)), reference) == []
    assert names_of(replace(quiet, curve=curve(1.4)), reference) == ["curve"]


def test_a_model_that_is_shown_has_no_gain_to_lose(watch, quiet):
    reference = replace(watch[0], gain=Gain(0.2, 0.16, 0.24, 1.0))
    live = replace(
        quiet,
        gain=Gain(0.0, -0.001, 0.001, 1.0),
        ratios={**quiet.ratios, "order": Ratio(1.0, 0.0, 99, 900, 900)},
    )
    found = judge(live, reference, 1)
    assert is_live(live)
    assert found.verdict == "fine"
    assert "the model's own" in " ".join(found.notes)


def test_sessions_without_features_are_looked_at(watch, quiet):
    out = Ratio.of_counts(100, 1600)
    assert names_of(replace(quiet, ratios={**quiet.ratios, "left out": out}), watch[0]) == [
        "left out"
    ]


def test_a_trifle_raises_no_alarm_however_sure_it_is(watch, quiet):
    old = watch[0].summary.ratios["clicks per session"]
    sure = Ratio(old.value * 1.05, 1e-9, 1e9, 1.05e9, 1e9)
    now = replace(quiet, ratios={**quiet.ratios, "clicks per session": sure})
    reference = replace(
        watch[0],
        summary=replace(
            watch[0].summary,
            ratios={**watch[0].summary.ratios, "clicks per session": replace(old, error=1e-9)},
        ),
    )
    assert names_of(now, reference) == []


def test_what_robots_may_feign_is_said_to_be_so(watch, quiet):
    robots = {**quiet.ratios, "greedy": Ratio(0.05, 0.001, 99, 75, 1500)}
    reference = replace(watch[0], gain=Gain(0.2, 0.19, 0.21, 1.0))
    now = replace(quiet, gain=Gain(-0.1, -0.11, -0.09, 1.0), ratios=robots)
    found = judge(now, reference, 1)
    assert found.verdict == "look"
    assert [one.check for one in found.reasons] == ["greedy", "gain"]
    assert "may come of the above" in found.reasons[1].what


def test_a_window_of_few_clicks_says_that_it_cannot_judge(watch, lists, sessions):
    reference, watched = watch
    found = judge(summarise(local(sessions(30, 3), lists), watched, "w"), reference, 1)
    assert found.verdict == "fine"
    assert "too few" in found.notes[0]


def test_later_windows_are_judged_more_strictly_and_all_levels_sum_up():
    assert level(1) > level(2) > level(HORIZON)
    assert sum(level(t) for t in range(1, HORIZON + 1)) == pytest.approx(FALSE_ALARMS)
    assert FALSE_ALARMS <= 0.05


def test_after_the_first_windows_the_level_stays():
    assert level(HORIZON) == level(HORIZON + 1) == level(10 * HORIZON)
    assert 100 * level(HORIZON + 1) < 0.01


def test_two_windows_together_tell_what_neither_tells_alone(watch, lists, sessions):
    reference, watched = watch
    # thin ones, at the level of a late window
    one, two = (
        summarise(local(sessions(200, seed, eta=1.45), lists), watched, "w") for seed in (41, 42)
    )
    assert judge(one, reference, HORIZON).verdict == "fine"
    assert judge(two, reference, HORIZON).verdict == "fine"
    found = judge(replace(two, before=one.depths), reference, HORIZON)
    assert found.verdict == "retrain"
    assert [reason.check for reason in found.reasons] == ["fall"]
    assert found.reasons[0].what.endswith("over the last two windows")


def test_a_quiet_window_before_raises_no_alarm(watch, lists, sessions, quiet):
    before = summarise(local(sessions(1500, 3), lists), watch[1], "w").depths
    assert judge(replace(quiet, before=before), watch[0], 1).verdict == "fine"


def test_clicks_of_robots_or_in_another_order_are_not_added_to_the_next_window(
    watch, lists, sessions, quiet
):
    swapped = summarise(local(sessions(1500, 5, ranker=1), lists), watch[1], "w")
    assert judge(swapped, watch[0], 1).summary.depths is None
    robots = {**quiet.ratios, "greedy": Ratio(0.05, 0.001, 99, 75, 1500)}
    robot = replace(quiet, ratios=robots)
    assert judge(robot, watch[0], 1).summary.depths is None
    assert judge(quiet, watch[0], 1).summary.depths == quiet.depths


def test_the_fall_has_half_of_the_level_and_the_checks_all_of_it():
    names = [check.name for check in CHECKS]
    assert _shares(names)["fall"] == 0.5
    assert sum(_shares(names).values()) == pytest.approx(1)
    others = [name for name in names if name != "fall"]
    assert len(set(_shares(others).values())) == 1
    assert sum(_shares(others).values()) == pytest.approx(1)


def test_every_check_has_a_name_of_its_own_and_a_size():
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(check.matters > 0 for check in CHECKS)


def test_features_of_the_reference_are_those_that_the_model_uses(run, watch):
    used = {name for name, value in load_ranker(run).feature_importance().items() if value}
    assert set(watch[0].edges) == used
    shares = list(watch[0].importance.values())
    assert shares == sorted(shares, reverse=True)
    assert LogMapping() == _plan_of(run).mapping
