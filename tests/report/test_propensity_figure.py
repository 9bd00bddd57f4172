import json

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.propensity.curve import Propensities
from prsrank.report.propensity_figure import chart_rows, plot_propensities


@pytest.fixture
def curves():
    return {
        name: Propensities(
            [1, 0.5, np.nan], [1, 0.4, np.nan], [1, high, np.nan], [9, 5, 0], "weak", name
        )
        for name, high in (("swap", 0.7), ("harvest", np.nan))
    }


def test_rows_are_the_known_positions(curves):
    rows = chart_rows(curves)
    assert [(row["method"], row["position"]) for row in rows] == [
        ("swap", 1), ("swap", 2), ("harvest", 1), ("harvest", 2)
    ]  # fmt: skip
    assert rows[1]["high"] == 0.7
    assert rows[3]["high"] is None
    assert len(chart_rows(curves, positions=1)) == 2


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
