"""Lists as a ranker takes them: with its features, in its order."""

from dataclasses import replace

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.rankers.base import Ranker


def features_for(ranker: Ranker, lists: RankingDataset) -> RankingDataset:
    """Return lists with the features that a ranker was trained on, in its order.

    They are found by name; lists whose features are only numbered, and those that know none of
    the names, are taken as they are.

    Raises:
        InputError: if only some of them are there.
    """
    names = tuple(getattr(ranker, "feature_names_", ()))
    index = {name: column for column, name in enumerate(lists.feature_names)}
    missing = [name for name in names if name not in index]
    numbered = lists.feature_names == tuple(str(i + 1) for i in range(len(index)))
    if numbered or names == lists.feature_names or len(missing) == len(names):
        return lists
    if missing:
        raise InputError(f"the lists have no feature {missing[0]!r}, which the model learned from")
    columns = [index[name] for name in names]
    return replace(lists, features=lists.features[:, columns], feature_names=names)
