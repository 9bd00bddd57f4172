import inspect

import pytest

from prsrank.errors import InputError
from prsrank.rankers.base import RANKERS, make_ranker, ranker_class
from prsrank.rankers.cards import RANGES
from prsrank.weighting import WEIGHTINGS

_WRONG = ("abc", None, [], {}, True, -1, float("nan"), float("inf"), 10**30, [1, "x"], 1e400)


def test_every_number_has_a_range():
    for name in RANKERS:
        known = inspect.signature(ranker_class(name).__init__, eval_str=True).parameters
        for one, parameter in known.items():
            numeric = any(kind in str(parameter.annotation) for kind in ("int", "float"))
            assert not numeric or one in RANGES, f"{name}: {one}"
    assert {one for weighting in WEIGHTINGS.values() for one in weighting.parameters} <= set(RANGES)


def test_defaults_and_search_grids_lie_in_their_ranges():
    for name in RANKERS:
        kind = ranker_class(name)
        for settings in ({}, *kind.search_grid):
            make_ranker(name, None, settings)
    for name, weighting in WEIGHTINGS.items():
        if weighting.search_grid:
            for values in weighting.search_grid:
                make_ranker("linear", name, values)


@pytest.mark.parametrize("name", RANKERS)
def test_wrong_values_are_refused_where_they_are_given(name):
    for parameter in ranker_class(name)._parameter_names():
        if parameter not in RANGES:
            continue
        refused = 0
        for wrong in _WRONG:
            try:
                make_ranker(name, None, {parameter: wrong})
            except InputError as error:
                refused += 1
                assert parameter in str(error)  # noqa: PT017
        # None is a value of some, and so is an empty list of widths
        assert refused >= len(_WRONG) - 2, parameter


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trees": "abc"}, "trees must be a whole number, not 'abc'"),
        ({"leaves": 1}, "leaves must be from 2 to 131072, not 1"),
        ({"learning_rate": 0}, "above 0"),
        ({"threads": 100_000}, "threads must be from 1 to 4096"),
        ({"tau": float("nan")}, "tau must be a finite number"),
        ({"tau": "x"}, "tau must be a finite number"),
        ({"tau": -0.1}, "tau must be from 0"),
        ({"parameters": [1]}, "parameters must be a table"),
    ],
)
def test_messages_name_the_range(given, message):
    with pytest.raises(InputError, match=message):
        make_ranker("lambdamart", "prs", given)
