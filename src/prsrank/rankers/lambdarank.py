"""LightGBM's own lambdarank on labels: the full-information baseline to compare with."""

from typing import Any

from prsrank.data.dataset import RankingDataset
from prsrank.rankers.lightgbm_library import import_lightgbm


def train_lambdarank(
    train: RankingDataset,
    validation: RankingDataset | None = None,
    *,
    trees: int = 300,
    seed: int = 0,
    **parameters: Any,
) -> Any:
    """Train on relevance with `objective="lambdarank"`; return the LightGBM booster.

    Args:
        train: the training lists, with labels.
        validation: lists to stop early on, by NDCG@10; without them all trees are grown.
        trees: the most trees to grow.
        seed: of LightGBM.
        parameters: passed through to LightGBM.
    """
    lightgbm = import_lightgbm()
    options = {
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [10],
        "learning_rate": 0.05,
        "min_data_in_leaf": 20,
        "deterministic": True,
        "force_row_wise": True,
        "seed": seed,
        "verbosity": -1,
    } | parameters
    training = _lightgbm_dataset(lightgbm, train)
    if validation is None:
        return lightgbm.train(options, training, num_boost_round=trees)
    return lightgbm.train(
        options,
        training,
        num_boost_round=trees,
        valid_sets=[_lightgbm_dataset(lightgbm, validation, reference=training)],
        callbacks=[lightgbm.early_stopping(30, verbose=False)],
    )


def _lightgbm_dataset(lightgbm: Any, data: RankingDataset, reference: Any = None) -> Any:
    return lightgbm.Dataset(
        data.features, label=data.relevance, group=data.list_lengths, reference=reference
    )
