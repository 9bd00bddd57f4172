import gc
import weakref
from dataclasses import replace

import numpy as np

from prsrank.data.dataset import binned, judged_by
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


def test_lists_to_judge_by_are_taken_to_other_bins_for_another_training_part():
    parts = [synthetic_dataset("mq2007", 30, seed=seed) for seed in (1, 2)]
    judged = synthetic_dataset("mq2007", 10, seed=3)
    found = []
    for lists in (parts[0], parts[1], parts[0], parts[0]):
        ranker = LambdaMART(trees=6, patience=6)
        pairs = PairSet.from_labels(lists, **ranker.pair_options)
        found.append(ranker.fit(lists, pairs, validation=judged).history_)
    alone = LambdaMART(trees=6, patience=6)
    pairs = PairSet.from_labels(parts[1], **alone.pair_options)
    other = replace(judged, features=judged.features.copy())
    assert found[1] == alone.fit(parts[1], pairs, validation=other).history_
    assert found[0] == found[2] == found[3] != found[1]


def test_bins_are_made_once_and_forgotten_with_the_lists():
    lists = synthetic_dataset("mq2007", 10)
    data = binned(lists, 0)
    assert binned(lists, 0) is data
    assert binned(lists, 1) is not data
    judge = judged_by(lists, data)
    assert judged_by(lists, data) is judge
    assert judged_by(lists, binned(lists, 1)).reference is binned(lists, 1)
    gone = weakref.ref(lists)
    del lists, data, judge
    gc.collect()
    assert gone() is None
