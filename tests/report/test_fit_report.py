from prsrank.propensity.curve import Propensities
from prsrank.report.fit_report import _curve_table


def test_the_first_row_of_the_curve_is_position_1():
    curve = Propensities([1, 0.5], [1, 0.4], [1, 0.6], [80, 40], "identified", "harvest")
    rows = _curve_table(curve)["rows"]
    assert [row[0] for row in rows] == [1, 2]
    assert [row[-1] for row in rows] == [80, 40]
