"""The linear ranker on pieces of a log is the one on the whole, wherever the pieces lie."""

from itertools import pairwise

import numpy as np
import pytest

from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.logs.pieces import LocalPieces
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.linear import LinearRanker, fit_linear


def pieces_of(data, cuts):
    """Cut lists into pieces with their pairs."""
    for begin, end in pairwise(cuts):
        lists = data.select(np.arange(begin, end))
        yield lists, PairSet.from_labels(lists)


def relevant(data):
    return np.add.reduceat(data.relevance.astype(int), data.offsets[:-1])


@pytest.fixture(scope="module")
def data():
    """Lists, those without a relevant doc first."""
    lists = synthetic_dataset("mq2007", 40, seed=3)
    return lists.select(np.argsort(relevant(lists), kind="stable"))


def test_pieces_make_the_ranker_of_the_whole(data):
    """The first piece has no pair."""
    bare = int((relevant(data) == 0).sum())
    assert bare > 1
    rankers = [LinearRanker(l2=l2, missing="impute", tolerance=1e-9) for l2 in (0.01, 1.0)]
    pieces = LocalPieces(list(pieces_of(data, [0, bare, 20, data.lists])))
    fit_linear(rankers, pieces, data.feature_names)
    for one in rankers:
        whole = LinearRanker(**one.get_params()).fit(data, PairSet.from_labels(data))
        np.testing.assert_allclose(one.weights_, whole.weights_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(one.scaling_.mean, whole.scaling_.mean)


def test_no_pairs_at_all_is_an_error(data):
    bare = int((relevant(data) == 0).sum())
    pieces = LocalPieces(list(pieces_of(data, [0, bare])))
    with pytest.raises(InputError, match="no pairs to learn from"):
        fit_linear([LinearRanker(missing="impute")], pieces, data.feature_names)
