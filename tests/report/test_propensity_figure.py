import json
from dataclasses import replace

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.notebook.vega_lite import panel_spec
from prsrank.propensity.curve import Propensities
from prsrank.report.propensity_figure import curve_table, plot_propensities, propensity_figure


@pytest.fixture
def curves():
    return {
        name: Propensities(
            [1, 0.5, np.nan], [1, 0.4, np.nan], [1, high, np.nan], [9, 5, 0], "weak", name
        )
        for name, high in (("swap", 0.7), ("harvest", np.nan))
    }


def test_rows_are_the_known_positions(curves):
    swap, harvest = propensity_figure(curves)["panels"][0]["series"]
    assert (swap["name"], swap["x"], swap["y"]) == ("swap", [1, 2], [1.0, 0.5])
    assert (harvest["name"], harvest["x"]) == ("harvest", [1, 2])
    assert (swap["high"], harvest["high"]) == ([1.0, 0.7], [1.0, None])
    drawn = propensity_figure(curves, positions=1)["panels"][0]["series"]
    assert [one["x"] for one in drawn] == [[1], [1]]


def test_weak_positions_are_drawn_as_weak():
    clicks = [9000, 900, 3]
    curve = Propensities(
        [1, 0.5, 0.2], [1, 0.4, 0.1], [1, 0.6, 0.3], clicks, "weak: positions 3: few clicks", "swap"
    )
    assert curve.weak.tolist() == [False, False, True]
    figure = propensity_figure({"swap": curve})
    assert "few clicks" in figure["caption"]
    spec = panel_spec(figure, figure["panels"][0], {"swap": 0})
    rows = spec["data"]["values"]
    assert [row["weak"] for row in rows] == [False, False, True]
    points = [one["mark"] for one in spec["layer"] if one["mark"].get("size") == 46]
    assert [mark["filled"] for mark in points] == [True, False]
    # a curve that its clicks identify, or that is given, has no weak position
    assert not replace(curve, verdict="identified").weak.any()


@pytest.mark.parametrize(("kind", "start"), [("html", b"<"), ("png", b"\x89PNG"), ("svg", b"<svg")])
def test_files_of_every_kind(curves, tmp_path, kind, start):
    path = tmp_path / f"p.{kind}"
    plot_propensities(curves, path)
    content = path.read_bytes()
    assert content.startswith(start)
    if kind == "html":
        assert b"cdn.jsdelivr" not in content
        assert json.dumps("harvest").encode() in content
    if kind == "svg":
        assert b"harvest" in content


def test_other_kinds_are_an_error(curves, tmp_path):
    with pytest.raises(InputError, match="written as"):
        plot_propensities(curves, tmp_path / "p.pdf")


def test_the_first_row_of_the_curve_is_position_1():
    curve = Propensities([1, 0.5], [1, 0.4], [1, 0.6], [80, 40], "identified", "harvest")
    rows = curve_table({"harvest": curve}, positions=40)["rows"]
    assert [row[1] for row in rows] == [1, 2]
    assert [row[-1] for row in rows] == [80, 40]
    assert len(curve_table({"harvest": curve}, positions=1)["rows"]) == 1
