import json

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.propensity.curve import (
    PowerLaw,
    Propensities,
    covering,
)
from prsrank.propensity.curve_of import parse_propensity


def curve(p=(1.0, 0.5, np.nan), **changes):
    values = {
        "propensity": p,
        "low": [1.0, 0.4, np.nan],
        "high": [1.0, 0.7, np.nan],
        "clicks": [30, 12, 0],
        "verdict": "weak: positions 3: no clicks",
        "method": "swap",
    }
    return Propensities(**{**values, **changes})


def test_at_takes_positions_not_indices():
    assert curve().at([[2, 1], [1, 2]]).tolist() == [[0.5, 1.0], [1.0, 0.5]]


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([1, 4], "ends at position 3: position 4"),
        ([3], "position 3 is not known"),
        ([0], "a position is 0"),
        ([1.5], "a position is 1.5"),
        ([-1], "a position is -1"),
    ],
)
def test_at_names_the_position_it_lacks(positions, message):
    with pytest.raises(InputError, match=message):
        curve().at(positions)


def test_at_uses_the_curve_of_a_context_and_else_the_shared_one():
    both = curve(contexts={"mobile": curve(p=(1.0, 0.3, 0.1))})
    assert both.at([2], context="mobile").tolist() == [0.3]
    assert both.at([2], context="desktop").tolist() == [0.5]
    assert both.at([2]).tolist() == [0.5]


def test_json_has_exactly_the_promised_keys_and_null_for_unknown():
    value = json.loads(json.dumps(curve().to_json_dict()))
    assert list(value) == ["propensity", "low", "high", "clicks", "verdict"]
    assert value["propensity"] == [1.0, 0.5, None]
    assert value["clicks"] == [30, 12, 0]


def test_save_and_load_give_the_same_curve(tmp_path):
    before = curve(contexts={"mobile": curve(p=(1.0, 0.3, 0.1))})
    before.save(tmp_path / "p.json")
    after = Propensities.load(tmp_path / "p.json")
    assert after.to_json_dict() == before.to_json_dict()
    assert parse_propensity(str(tmp_path / "p.json")).to_json_dict() == before.to_json_dict()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "the key 'propensity' is missing"),
        ('{"propensity": []}', "empty"),
        ('{"propensity": 3}', "must be a list, not 3"),
        ('{"propensity": [1, "x"]}', r"propensity\[1\] must be a finite number"),
        ('{"propensity": [1, -0.5]}', "position 2 is negative"),
        ('{"propensity": [1, 1e999]}', r"propensity\[1\] must be .*a finite number"),
        ('{"propensity": [0.5, 0.2]}', "position 1 is 0.5"),
        ('{"propensity": [1, 0.5], "low": [1]}', "1 entries for 2"),
        ('{"propensity": [1, 0.5], "clicks": [1.5, 2]}', "a whole number"),
        ('{"propensity": [1], "contexts": [1]}', "contexts must be a table"),
        ('{"propensity": [1], "contexts": {"a": {"propensity": [2]}}}', "context a"),
        ("[1]", "no JSON object"),
        ('{"propensity": [1, 1' + "0" * 400 + "]}", "a finite number"),
        ('{"propensity": [1], "clicks": [1' + "0" * 400 + "]}", "a finite number"),
        ('{"propensity": [1, 1' + "0" * 9000 + "]}", "not valid JSON"),
        ('{"propensity": [1, NaN]}', r"propensity\[1\] must be .*a finite number"),
        ('{"propensity": [1], "verdict": ["x"]}', "verdict must be a text"),
        ('{"propensity": ' + "[" * 90_000, "nested too deep"),
    ],
)
def test_bad_files_give_one_clear_error(tmp_path, content, message):
    (tmp_path / "p.json").write_text(content)
    with pytest.raises(InputError, match=message):
        Propensities.load(tmp_path / "p.json")


def test_a_file_with_the_curve_alone_is_enough(tmp_path):
    (tmp_path / "p.json").write_text('{"propensity": [1, 0.5]}')
    loaded = Propensities.load(tmp_path / "p.json")
    assert loaded.at([2]).tolist() == [0.5]
    assert np.isnan(loaded.low).all()


def test_power_law():
    assert PowerLaw(2).at([1, 2, 3]).tolist() == [1, 1 / 4, 1 / 9]
    assert parse_propensity("power:0.5") == PowerLaw(0.5)
    assert PowerLaw(1).at([10_000], context="any").tolist() == [1e-4]


@pytest.mark.parametrize("text", ["power:x", "power:", "power:-1", "power:inf", "power:nan"])
def test_bad_power_laws(text):
    with pytest.raises(InputError):
        parse_propensity(text)


def test_the_covariance_is_kept(tmp_path):
    """It is in the file, and not in what commands print."""
    matrix = [[0.0, 0.0], [0.0, 0.04]]
    part = Propensities([1, 0.4], [1, 0.3], [1, 0.5], [9, 5], "weak", "swap")
    curve = Propensities(
        [1, 0.5], [1, 0.4], [1, 0.6], [9, 5], "weak", "swap", {"phone": part}, matrix
    )
    curve.save(tmp_path / "p.json")
    again = Propensities.load(tmp_path / "p.json")
    np.testing.assert_array_equal(again.log_covariance, matrix)
    # of intervals alone: positions that are independent
    deviation = np.log(0.5 / 0.3) / (2 * 1.96)
    np.testing.assert_allclose(again.contexts["phone"].log_covariance, np.diag([0, deviation**2]))
    assert "covariance" not in curve.to_json_dict()
    for bad in ([[1.0]], [[0.0, 1.0], [0.0, 1.0]], "x", [[0, np.nan], [np.nan, 1]]):
        with pytest.raises(InputError, match="covariance"):
            Propensities([1, 0.5], [1, 0.4], [1, 0.6], [9, 5], "weak", "swap", {}, bad)


def test_notes_of_other_programs_are_passed_over(tmp_path):
    (tmp_path / "p.json").write_text(
        '{"propensity": [1, 0.5], "eta": [[1]], "contexts": {"tv": {"propensity": [1, 0.2], "n": 3}}}'
    )
    curve = Propensities.load(tmp_path / "p.json")
    assert curve.at([2], context="tv").tolist() == [0.2]


def test_position_1_is_known_whatever_its_clicks():
    p = [1.0, 0.5, 0.4]
    found = covering(Propensities(p, p, p, [3, 50, 40], "identified", "swap"), 4)
    assert found.propensity.tolist() == [1, 0.5, 0.4, 0.4]
    assert found.clicks.tolist() == [3, 50, 40, 0]
    assert found.low[0] == found.high[0] == 1
    assert "positions 4: taken as the position above" in found.verdict
