"""Trying candidates: the best is kept, the first of equals, and values that are no number lose."""

import math

from prsrank.rankers.search import best_of


def test_the_best_is_kept():
    found = best_of(["a", "bbb", "cc"], lambda word: (len(word), word.upper()))
    assert (found.best.candidate, found.best.value, found.best.result) == ("bbb", 3, "BBB")
    assert [trial.candidate for trial in found.trials] == ["a", "bbb", "cc"]


def test_the_first_of_equals_and_no_number_loses():
    values = [math.nan, 1.0, 2.0, 2.0, math.nan]
    assert best_of(range(5), lambda i: (values[i], None)).best.candidate == 2
    assert best_of([7, 8], lambda _: (math.nan, None)).best.candidate == 7
