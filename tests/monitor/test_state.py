"""The state file: what is written is read again, and nothing else is taken for one."""

import json
from dataclasses import replace

import pytest

from prsrank import InputError
from prsrank.monitor.checks import Reason, Window
from prsrank.monitor.monitoring import FORMAT, State, read_state
from prsrank.monitor.ratios import Curve, Depths, Power, Ratio
from prsrank.monitor.summary import Gain, Reference, Summary

RATIO = Ratio(0.1, 0.02, 9.0, 10.0, 100.0)
SUMMARY = Summary(
    name="monday", begin="2026-01-05 00:00:01", end="", sessions=9, queries=4, clicks=3,
    ratios={"clicks per session": RATIO}, shown=[9, 9], clicked=[2, 1],
    depth_spread=0.3, depths=Depths([7, 9], [2.0, 1.0], [0.0, 0.7]), before=None,
    features={"price": [RATIO, RATIO]}, orders={"price": RATIO},
    curve=Curve("harvest", [1.0, None], [1.0, None], [1.0, None], [2, 0]), power=Power(1.1, 0.2),
    gain=Gain(0.1, 0.0, 0.2, 1.0), effective_clicks=2.5, effective_queries=2.0,
)  # fmt: skip
REFERENCE = Reference(
    "log.parquet", SUMMARY, {"price": [3.5]}, {"price": 1.0}, SUMMARY.curve, SUMMARY.gain
)
WINDOW = Window(
    SUMMARY,
    "look",
    [Reason("clicks", "look", "more", 0.001, "look")],
    ["a note"],
)
STATE = State(FORMAT, "abc", REFERENCE, [])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.json"


def test_a_state_is_read_as_it_was_written(path):
    state = STATE.seen(WINDOW)
    state.write(path)
    assert read_state(path, "abc") == state


def test_a_state_without_curve_gain_or_power_is_read_too(path):
    bare = replace(SUMMARY, curve=None, gain=None, power=None)
    state = replace(STATE, reference=replace(REFERENCE, summary=bare, curve=None, gain=None))
    state.write(path)
    assert read_state(path, "abc") == state


def test_figures_that_earlier_versions_kept_are_passed_over(path):
    def add(value):
        value["reference"]["summary"].update(click_rates={"1": {}}, not_random="", heaviest={})
        value["windows"][0].update(drift=[{"feature": "price"}])

    changed(path, add)
    assert read_state(path, "abc") == STATE.seen(WINDOW)


def test_there_need_not_be_one_yet(path):
    assert read_state(path, "abc") is None


def test_windows_are_added_and_one_of_the_same_name_is_replaced():
    state = STATE.seen(WINDOW)
    other = replace(WINDOW, summary=replace(SUMMARY, name="tuesday"))
    state = state.seen(other)
    assert [one.summary.name for one in state.windows] == ["monday", "tuesday"]
    assert (state.number("monday"), state.number("tuesday"), state.number("x")) == (1, 2, 3)
    again = state.seen(replace(WINDOW, verdict="fine"))
    assert [one.verdict for one in again.windows] == ["fine", "look"]


def test_windows_are_kept_without_what_is_only_compared_once():
    assert STATE.seen(WINDOW).windows[0].summary.features == {}


def test_clicks_are_kept_of_the_last_two_windows_and_given_to_the_next():
    state = STATE
    for name in ("monday", "tuesday", "wednesday"):
        state = state.seen(replace(WINDOW, summary=replace(SUMMARY, name=name)))
    kept = [one.summary.depths for one in state.windows]
    assert kept == [None, SUMMARY.depths, SUMMARY.depths]
    assert state.before("thursday") == state.before("wednesday") == SUMMARY.depths
    assert state.before("monday") is state.before("tuesday") is None


def test_what_a_window_was_added_to_is_not_kept_with_it():
    pooled = replace(WINDOW, summary=replace(SUMMARY, before=SUMMARY.depths))
    assert STATE.seen(pooled).windows[0].summary.before is None


def changed(path, change):
    STATE.seen(WINDOW).write(path)
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda v: v.update(format="other"), "is not the state of a monitor"),
        (lambda v: v.update(format="prsrank monitor 1"), "was written by an earlier version"),
        (lambda v: v.pop("reference"), "the key 'reference' is missing"),
        (lambda v: v["windows"].append(3), r"windows\[1\] must be a table"),
        (lambda v: v["reference"]["summary"].update(sessions="9"), "must be a whole number"),
        (lambda v: v["reference"]["edges"].update(price=[1, 2]), "feature 'price' is not whole"),
        (lambda v: v["reference"]["edges"].update(size=[1]), "feature 'size' is not whole"),
        (lambda v: v["reference"]["importance"].clear(), "feature 'price' is not whole"),
        (lambda v: v.update(model="xyz"), "is the state of another model"),
    ],
)
def test_what_is_no_state_is_refused_in_one_line(path, change, said):
    changed(path, change)
    with pytest.raises(InputError, match=said) as refused:
        read_state(path, "abc")
    assert "\n" not in str(refused.value)


def test_a_state_that_was_cut_short_is_refused(path):
    STATE.write(path)
    path.write_text(path.read_text()[:-200])
    with pytest.raises(InputError, match="is not valid JSON"):
        read_state(path, "abc")
