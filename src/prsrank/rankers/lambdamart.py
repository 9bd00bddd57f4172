"""LambdaMART: gradient boosted trees on lambda gradients of weighted pairs, grown by LightGBM."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset, binned, judged_by
from prsrank.errors import DataWarning, InputError
from prsrank.logs.click_log import ClickLog
from prsrank.losses.click_set_lambdas import ClickSetObjective
from prsrank.losses.lambdas import LambdaObjective
from prsrank.metrics.ranking import average, ndcg
from prsrank.rankers.base import Progress, Quality, Ranker, Validation, checked_features
from prsrank.rankers.tree_text import check_model_text
from prsrank.rankers.trees import TreeEnsemble
from prsrank.threads import MANY_VALUES, import_lightgbm, tree_threads
from prsrank.types import Floats

SET_METRICS = ("map", "mrr")

Objective = Callable[[npt.NDArray], tuple[npt.NDArray, npt.NDArray]]
"""From the scores of all docs to gradient and second derivative by each."""


class LearnedTrees(TypedDict):
    """What a card says of trees, beside their text."""

    feature_names: list[str]
    history: list[float | None]


@dataclass(eq=False, repr=False, kw_only=True)
class LambdaMART(Ranker):
    r"""Trees fitted to $\lambda_i = \sum_j \lambda_{ij} - \sum_j \lambda_{ji}$ of weighted pairs.

    $\lambda_{ij} = -\sigma W_{ij} |\Delta Z_{ij}| / (1 + e^{\sigma (s_i - s_j)})$, with
    $\Delta Z$ the change of the metric when i and j change places in the current ranking
    (Burges 2010); W holds the weighting of clicks, propensity ratios for PRS (Wang et al.
    2021). Cost depends on the docs and the distinct pairs, not on the number of clicks.

    Args:
        trees: the most trees to grow.
        learning_rate: of each tree.
        leaves: the most leaves of a tree.
        min_docs_in_leaf: the fewest docs of a leaf.
        metric: "ndcg" or "arp", which take a PairSet; "map" or "mrr", which take ClickSets.
        sigma: steepness of the logistic function.
        truncation: only pairs with a doc in the top ranks count; None: all.
        patience: with `validation`, stop after so many trees without a better value.
        seed: of LightGBM and of the order in which tied docs count as ranked.
        norm: normalise lambdas as LightGBM's `lambdarank_norm` does: each $|\Delta Z_{ij}|$ over
            $0.01 + |s_i - s_j|$, and a list's lambdas so that their sum S becomes
            $\log_2(1 + S)$.
        threads: default one per core, or one for small data. The result does not depend on it.
        parameters: LightGBM's own parameters, passed through; they win over the above.

    Attributes:
        booster_: the LightGBM booster.
        best_value_: the best value on the validation lists, if any.
        history_: the value after each tree.
        feature_names_: names of the features.

    >>> from prsrank.data.synthetic import synthetic_dataset
    >>> from prsrank.pairs.pair_set import PairSet
    >>> data = synthetic_dataset("mq2007", 20)
    >>> ranker = LambdaMART(trees=5)
    >>> scores = ranker.fit(data, PairSet.from_labels(data, **ranker.pair_options)).score(data.features)
    >>> scores.shape == (data.docs,)
    True
    """

    name: ClassVar[str] = "lambdamart"
    stops_early: ClassVar[bool] = True
    _learned: ClassVar[Any] = LearnedTrees
    search_grid: ClassVar[Sequence[Mapping[str, Any]]] = [
        {"leaves": leaves, "min_docs_in_leaf": docs, "learning_rate": rate, "norm": norm}
        for rate in (0.1, 0.05)
        for norm in (False, True)
        for leaves in (7, 31, 15)
        for docs in (20, 100)
    ]
    importance_measure: ClassVar[str] = "share of the gain of all splits"

    booster_: Any = field(init=False)
    trees: int = 500
    learning_rate: float = 0.05
    leaves: int = 31
    min_docs_in_leaf: int = 20
    metric: str = "ndcg"
    sigma: float = 1.0
    truncation: int | None = None
    patience: int = 50
    seed: int = 0
    norm: bool = False
    threads: int | None = None
    parameters: Mapping[str, Any] | None = None

    @property
    def takes(self) -> str:
        """Weighted pairs, or for MAP and MRR sets of clicks."""
        of_sets = self.metric in SET_METRICS and self.takes_propensities
        return "click sets" if of_sets else super().takes

    @property
    def trees_(self) -> int | None:
        """How many trees were grown and kept."""
        return int(self.booster_.num_trees())

    def unfitted(self) -> Self:
        """Return a ranker to fit anew, which grows as many trees as this one has."""
        return super().unfitted().set_params(trees=self.trees_)

    def scorer(self) -> TreeEnsemble:
        """Return the trees."""
        self.check_fitted()
        return TreeEnsemble(self.booster_.model_to_string())

    @property
    def pair_options(self) -> dict[str, Any]:
        """Options for `PairSet.from_log` and `from_labels`: the session constant of the metric."""
        return {"normalise": self.metric, "truncation": self.truncation, "dtype": np.float32}

    def fit(
        self,
        lists: RankingDataset,
        what: Any,
        *,
        validation: Validation | None = None,
        init_model: "LambdaMART | None" = None,
        progress: Progress | None = None,
    ) -> Self:
        """Grow the trees.

        Args:
            lists: the lists that the pairs are of.
            what: weighted pairs made with this ranker's `pair_options`, or ClickSets; for a
                ranker that learns the propensities a log, or what `pairs` made of it.
            validation: lists with labels, for early stopping by NDCG@10 on relevance; or lists
                and a function of their scores (higher is better), such as a
                `CounterfactualMetric` on held-out clicks.
            init_model: a fitted ranker of this kind to grow further trees on.
            progress: is told the number of trees and the validation value after each tree.
        """
        self.check_settings()
        if self.takes == "log" and isinstance(what, ClickLog):
            what = self.pairs(what, lists)
        if not np.array_equal(lists.offsets, what.offsets):
            raise InputError("the pairs are of other lists than the data set's")
        objective = self._objective(what, init_model)
        own = self.parameters or init_model is not None  # of which bins, too, may be other ones
        training, values = self._training(lists, what, shared=not own)
        self._grow(objective, training, values, validation, progress, init_model)
        self.feature_names_ = lists.feature_names
        self._keep(objective, what, init_model)
        return self

    def _training(self, lists: RankingDataset, what: Any, *, shared: bool) -> tuple[Any, int]:
        """Return the docs in LightGBM's form, and how many values they have.

        Args:
            lists: the lists.
            what: what is learned from.
            shared: whether bins may be those that other rankers have of the same lists.
        """
        if shared:
            return binned(lists, self.seed), lists.features.size
        training = import_lightgbm().Dataset(lists.features, free_raw_data=False)
        return training, lists.features.size

    def _keep(self, objective: Any, what: Any, init_model: Any) -> None:
        """Keep what the objective learned beside the trees."""

    def _grow(
        self,
        objective: Objective | str,
        training: Any,
        values: int,
        validation: Validation | None,
        progress: Progress | None,
        init_model: "LambdaMART | None",
    ) -> None:
        """Grow the trees, and keep the best of them."""
        lightgbm = import_lightgbm()
        history: list[float] = []
        callbacks, valid_sets, quality = [recorder(history, progress)], [], None
        if validation is not None:
            judged = validation if isinstance(validation, tuple) else (validation, None)
            quality = judged[1] or ndcg_of(judged[0])
            valid_sets = [judged_by(judged[0], training)]
            callbacks.append(lightgbm.early_stopping(self.patience, verbose=False))
        named = objective if isinstance(objective, str) else lambda scores, _: objective(scores)
        booster = lightgbm.train(
            self._options(values) | {"objective": named},
            training,
            num_boost_round=self.trees,
            valid_sets=valid_sets,
            feval=None if quality is None else lambda scores, _: ("quality", quality(scores), True),
            init_model=None if init_model is None else init_model.booster_,
            callbacks=callbacks,
        )
        self.history_ = history
        self.best_value_ = max(history) if history else None
        text = booster.model_to_string(num_iteration=booster.best_iteration or -1)
        self.booster_ = lightgbm.Booster(model_str=text)

    def score(self, features: npt.ArrayLike) -> Floats:
        """Return the sum of the trees' values for each doc."""
        self.check_fitted()
        values = checked_features(features, len(self.feature_names_))
        scores = self.booster_.predict(values, num_threads=tree_threads(values.size, self.threads))
        return np.asarray(scores, np.float64)

    def feature_importance(self) -> dict[str, float]:
        """Return each feature's total gain, largest first."""
        self.check_fitted()
        return self._by_size(self.booster_.feature_importance(importance_type="gain"))

    def _objective(self, pairs: Any, init_model: Any = None) -> Objective | str:
        """Return what gives the gradients, or the name of LightGBM's own."""
        made_for = getattr(pairs, "normalise", "map or mrr")
        if self.metric not in (SET_METRICS if made_for == "map or mrr" else (made_for,)):
            raise InputError(
                f"these pairs are made for {made_for or 'no metric'}, not {self.metric}: make them "
                "by ranker.pairs(log, dataset, ...) or pass **ranker.pair_options"
            )
        kind: Any = ClickSetObjective if self.metric in SET_METRICS else LambdaObjective
        objective: Objective = kind(pairs, **self._objective_options)
        return objective

    @property
    def _objective_options(self) -> dict[str, Any]:
        names = ("metric", "sigma", "truncation", "seed", "norm", "threads")
        return {name: getattr(self, name) for name in names}

    def _options(self, values: int = MANY_VALUES) -> dict[str, Any]:
        """LightGBM's parameters for a training matrix of so many values."""
        return {
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.min_docs_in_leaf,
            "num_threads": tree_threads(values, self.threads),
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "feature_pre_filter": False,
            "metric": "None",
            "verbosity": -1,
        } | dict(self.parameters or {})

    def _state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        values = {"feature_names": list(self.feature_names_), "history": self.history_}
        return values, {"model.txt": self.booster_.model_to_string().encode()}

    def _restore(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        text = files["model.txt"].decode()
        self.feature_names_ = tuple(values["feature_names"])
        if check_model_text(text) != len(self.feature_names_):
            raise InputError(f"the trees do not take {len(self.feature_names_)} features")
        lightgbm = import_lightgbm()
        try:
            self.booster_ = lightgbm.Booster(model_str=text)
        except lightgbm.basic.LightGBMError as error:
            raise InputError(f"LightGBM cannot read the trees: {error}") from error
        self.history_ = [np.nan if value is None else float(value) for value in values["history"]]
        self.best_value_ = max(self.history_) if self.history_ else None


def ndcg_of(lists: RankingDataset) -> Quality:
    """Return the function from scores of these lists to their mean NDCG@10 on relevance."""
    relevance = lists.relevance
    if not relevance.any():
        warnings.warn("no validation list has a relevant doc", DataWarning, stacklevel=3)
    return lambda scores: average(ndcg(relevance, scores, lists.offsets, k=10)).mean


def recorder(history: list[float], progress: Progress | None) -> Callable[[Any], None]:
    """Return a callback of LightGBM that keeps the value after each tree, and tells of it."""

    def record(state: Any) -> None:
        value = state.evaluation_result_list[0][2] if state.evaluation_result_list else None
        if value is not None:
            history.append(float(value))
        if progress is not None:
            progress(state.iteration + 1, value)

    return record
