import gc
import weakref
from dataclasses import replace

import numpy as np

from prsrank.data.binned import binned
from prsrank.data.synthetic import synthetic_dataset
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.lambdamart import LambdaMART


def test_rankers_of_the_same_lists_share_bins_and_do_not_disturb_one_another():
    lists = synthetic_dataset("mq2007", 40)
    rankers = [LambdaMART(trees=5, leaves=leaves, min_docs_in_leaf=5) for leaves in (4, 12, 4)]
    for ranker in rankers:
        ranker.fit(lists, PairSet.from_labels(lists, **ranker.pair_options))
    alone = LambdaMART(trees=5, leaves=12, min_docs_in_leaf=5)
    other = replace(lists, features=lists.features.copy())
    alone.fit(other, PairSet.from_labels(other, **alone.pair_options))
    scores = [one.score(lists.features) for one in (*rankers, alone)]
    np.testing.assert_array_equal(scores[0], scores[2])
    np.testing.assert_array_equal(scores[1], scores[3])
    assert not np.array_equal(scores[0], scores[1])


def test_bins_are_made_once_and_forgotten_with_the_lists():
    lists = synthetic_dataset("mq2007", 10)
    data = binned(lists, 0)
    assert binned(lists, 0) is data
    assert binned(lists, 1) is not data
    gone = weakref.ref(lists)
    del lists, data
    gc.collect()
    assert gone() is None
