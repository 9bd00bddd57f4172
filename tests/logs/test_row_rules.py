"""The rules that rows must keep: one bad value breaks its own rule and no other."""

import numpy as np
import pytest

from prsrank.audit.catalogue import KINDS
from prsrank.logs.event_source import open_frame
from prsrank.logs.row_rules import row_rules, type_rules

TIME = 1_700_000_000_000_000


def frame(**changed):
    """Three good rows, the second with other values."""
    columns = {
        "query_id": np.array(["a", "a", "b"], object),
        "session_id": np.array([1, 1, 2]),
        "doc_id": np.array(["x", "y", "x"], object),
        "position": np.array([1.0, 2.0, 1.0]),
        "click": np.array([1.0, 0.0, 1.0]),
        "propensity": np.array([1.0, 0.5, 1.0]),
        "weight": np.array([2.0, 0.0, 1.0]),
        "timestamp": np.array([TIME, TIME, TIME]),
    }
    for name, value in changed.items():
        columns[name][1] = value
    return columns


def broken(columns):
    with open_frame(columns) as source:
        assert not list(type_rules(source))
        rules = list(row_rules(source))
        counts = source.total(", ".join(f"count_if({rule.broken})" for rule in rules))
    return {rule.code for rule, count in zip(rules, counts, strict=True) if count}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, None),
        ({"doc_id": None}, "id-missing"),
        ({"query_id": " NULL "}, "id-placeholder"),
        ({"query_id": "q" * 10_001}, "id-too-long"),
        ({"query_id": "q" * 10_000}, None),
        ({"position": np.nan}, "position-missing"),
        ({"position": np.nan, "click": 1, "weight": 1}, "click-without-impression"),
        ({"position": 1.5}, "position-not-whole"),
        ({"position": np.inf}, "position-too-large"),
        ({"position": 1_000_001}, "position-too-large"),
        ({"position": -1}, "position-below-one"),
        ({"position": 0}, "positions-from-zero"),
        ({"click": np.nan}, "click-missing"),
        ({"click": 2}, "click-not-binary"),
        ({"click": 1, "weight": np.inf}, "weight-invalid"),
        ({"click": 1, "weight": np.nan}, "weight-invalid"),
        ({"weight": -1}, None),  # of no matter without a click
        ({"propensity": np.nan}, "propensity-invalid"),
        ({"propensity": -0.5}, "propensity-invalid"),
        ({"propensity": np.inf}, "propensity-invalid"),
        ({"propensity": 0, "click": 1, "weight": 1}, "propensity-invalid"),
        ({"propensity": 1.5}, "propensity-above-one"),
        ({"timestamp": 1_700_000_000}, "timestamp-suspect"),
    ],
)
def test_a_bad_value_breaks_one_rule(changed, code):
    assert broken(frame(**changed)) == ({code} if code else set())


def test_what_a_reader_refuses_is_an_error_of_the_audit():
    with open_frame(frame()) as source:
        for rule in row_rules(source):
            assert bool(rule.refusal) == (KINDS[rule.code].severity == "error"), rule.code


def test_columns_of_the_wrong_type():
    columns = frame() | {"query_id": np.ones(3), "click": np.array(["yes", "no", "no"], object)}
    columns |= {"weight": np.array(["1", "2", "3"], object), "timestamp": np.ones(3)}
    columns["randomised"] = np.ones(3)
    with open_frame(columns) as source:
        found = {rule.column: rule.code for rule in type_rules(source)}
    assert found == {
        "query_id": "id-type",
        "click": "click-type",
        "weight": "weight-invalid",
        "randomised": "randomised-type",
        "timestamp": "timestamp-invalid",
    }
