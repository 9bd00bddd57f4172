"""The page of a monitor as plain data."""

from dataclasses import replace

import pytest
from monitor_pages import monitoring

from prsrank.report.html import report_html
from prsrank.report.monitor_report import monitor_report
from prsrank.report.parts import figures_of


def test_the_verdict_comes_first_then_its_reasons():
    card = monitor_report(monitoring())["card"]
    assert (card["tone"], card["title"]) == ("bad", "Retrain")
    lead = card["lines"]
    assert "0.33 larger" in lead[1]
    assert lead[1].endswith("Train again on sessions since the change.")


def test_of_several_windows_the_latest_that_is_not_fine_is_told():
    found = monitoring(windows=3)
    off = replace(found.new[0], summary=replace(found.new[0].summary, name="the day before"))
    lead = monitor_report(replace(found, new=(off, found.new[0])))["card"]["lines"]
    assert [line.partition(",")[0] for line in lead[1:3]] == ["2026-01-07", "2026-01-07"]
    assert lead[-1] == "Not fine before: the day before (retrain)."


def test_all_windows_are_in_the_table_the_latest_first():
    page = monitor_report(monitoring(windows=4))
    rows = page["sections"][0]["tables"][0]["rows"]
    assert [row[0] for row in rows] == ["2026-01-08", "2026-01-07", "2026-01-06", "2026-01-05"]
    assert rows[0][1:3] == ["retrain", "fall, features"]


def test_curve_gain_and_rates_are_drawn():
    figures = {one["id"]: one for one in figures_of(monitor_report(monitoring(windows=3)))}
    assert set(figures) == {"curve", "power", "gain", "rates"}
    gains = figures["gain"]["panels"][0]["series"][0]
    assert gains["x"] == ["held out by the fit", "2026-01-05", "2026-01-06", "2026-01-07"]
    assert gains["y"][0] == 0.13
    curves = figures["curve"]["panels"][0]["series"]
    assert [one["name"] for one in curves] == ["trained on", "latest window"]
    assert curves[1]["y"][3] == pytest.approx(4**-1.33)


def test_what_is_not_known_is_left_out():
    found = monitoring(windows=1)
    bare = replace(found.new[0].summary, curve=None, power=None, gain=None)
    window = replace(found.new[0], summary=bare)
    before = replace(found.state.reference.summary, curve=None, power=None)
    reference = replace(found.state.reference, summary=before, curve=None, gain=None)
    state = replace(found.state, windows=[window], reference=reference)
    page = monitor_report(replace(found, state=state, new=(window,)))
    assert "curve" not in [one["id"] for one in figures_of(page)]
    assert "No window has clicks enough" in report_html(page)


def test_names_are_escaped(evil):
    page = report_html(monitor_report(monitoring(evil=evil)))
    assert evil not in page
    assert "&lt;/script&gt;" in page
