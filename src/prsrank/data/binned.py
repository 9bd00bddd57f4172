"""LightGBM's form of lists, made once for all that learn from them."""

from typing import Any
from weakref import WeakKeyDictionary

from prsrank.data.dataset import RankingDataset
from prsrank.threads import import_lightgbm, tree_threads

_BINNED: WeakKeyDictionary[RankingDataset, dict[int, Any]] = WeakKeyDictionary()
_JUDGED: WeakKeyDictionary[RankingDataset, Any] = WeakKeyDictionary()


def binned(lists: RankingDataset, seed: int) -> Any:
    """Return the features in LightGBM's bins, as `lightgbm.Dataset` has them by default.

    Finding the bins takes as long as a dozen trees: methods and settings that learn from the same
    lists share them. They are forgotten with the lists.

    Args:
        lists: the features.
        seed: LightGBM's, which draws the docs whose values the bins are made of.
    """
    by_seed = _BINNED.setdefault(lists, {})
    if seed not in by_seed:
        options = {
            "seed": seed,
            "num_threads": tree_threads(lists.features.size),
            "feature_pre_filter": False,
            "verbosity": -1,
        }
        data = import_lightgbm().Dataset(lists.features, params=options, free_raw_data=False)
        by_seed[seed] = data.construct()
    return by_seed[seed]


def judged_by(lists: RankingDataset, training: Any) -> Any:
    """Return lists in the bins of a training part, to judge its trees by while they grow.

    Args:
        lists: their features; the last form is kept for the next training on the same part.
        training: LightGBM's form of the training part.
    """
    judge = _JUDGED.get(lists)
    if judge is None or judge.reference is not training:
        judge = import_lightgbm().Dataset(lists.features, reference=training)
        _JUDGED[lists] = judge
    return judge
