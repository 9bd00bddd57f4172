"""What the linear rankers share: standardised features, their weights, and how to score."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NotRequired, Self, TypedDict

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.preprocess import FeatureScaling, StoredScaling
from prsrank.errors import InputError
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.base import Progress, Ranker, Validation, checked_features
from prsrank.rankers.pair_matrix import PairMatrix
from prsrank.rankers.scorers import LinearSum
from prsrank.types import Floats


class LearnedWeights(TypedDict):
    """What a card says of a linear ranker."""

    weights_: list[float]
    raw_weights_: list[float | None]
    feature_names_: list[str]
    scaling_: StoredScaling
    objective_: float | None
    converged_: bool
    iterations_: int
    gradient_norm_: NotRequired[float | None]
    gap_: NotRequired[float | None]
    weight_sum_: NotRequired[float | None]


class LinearScores(Ranker):
    r"""A ranker with $s = w \cdot x'$, x' the standardised features.

    Attributes:
        weights_: w: one weight per feature on the standardised scale, then one per indicator.
        scaling_: means, standard deviations and indicators.
        feature_names_: names of the features.
        objective_: the minimised objective at the solution.
        converged_: whether the solver reached its tolerance.
        iterations_: steps of the solver.
    """

    _learned: ClassVar[Any] = LearnedWeights
    importance_measure: ClassVar[str] = "share of the absolute weights"
    _takes_vectors: ClassVar[bool] = True
    missing: str
    threads: int | None
    weights_: Floats
    scaling_: FeatureScaling
    feature_names_: tuple[str, ...]
    objective_: float
    converged_: bool
    iterations_: int

    def fit(
        self,
        lists: RankingDataset,
        what: PairSet | OuterPairs,
        *,
        validation: Validation | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the weights; a DataWarning if the solver does not reach its tolerance.

        Args:
            lists: the lists.
            what: the pairs, made of the same data set.
            validation: not needed: the solver knows when it is done.
            progress: told nothing.
        """
        self.check_settings()
        if isinstance(what, OuterPairs) and not self._takes_vectors:
            what = what.dense()
        self._learn(self._standardise(lists, what))
        return self

    @abstractmethod
    def _learn(self, matrix: PairMatrix) -> None:
        """Find the weights."""

    def _standardise(self, dataset: RankingDataset, pairs: PairSet | OuterPairs) -> PairMatrix:
        """Fit the scaling to all docs; return the standardised docs of lists with winners."""
        if not np.array_equal(dataset.offsets, pairs.offsets):
            raise InputError("the pairs were made of another data set: their lists differ")
        with np.errstate(invalid="ignore", over="ignore"):
            scaling = FeatureScaling.fit(dataset.features, missing=self.missing)
        check_finite(scaling, dataset.feature_names)
        matrix = PairMatrix.build(dataset, pairs, scaling, threads=self.threads)
        self.scaling_, self.feature_names_ = scaling, dataset.feature_names
        return matrix

    @property
    def raw_weights_(self) -> Floats:
        """Weights of the features on their raw scale: w / standard deviation.

        A constant added to all scores ranks nothing, so there is no intercept.
        """
        return self.scorer().raw_weights

    def score(self, features: npt.ArrayLike) -> Floats:
        """Return the score of each doc (a row of raw features)."""
        self.check_fitted()
        values = checked_features(features, len(self.scaling_.mean))
        return np.asarray(self.scaling_.transform(values) @ self.weights_)

    def feature_importance(self) -> dict[str, float]:
        """Return each feature's absolute weight on the standardised scale, largest first."""
        self.check_fitted()
        return self._by_size(np.abs(self.weights_[: len(self.feature_names_)]))

    def scorer(self) -> LinearSum:
        """Return the weights and the standardisation."""
        self.check_fitted()
        return LinearSum(self.weights_, self.scaling_)

    def _state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        learned: dict[str, Any] = {
            name: value
            for name, value in vars(self).items()
            if name.endswith("_") and isinstance(value, bool | int | float)
        }
        learned |= {
            "weights_": self.weights_.tolist(),
            "raw_weights_": self.raw_weights_.tolist(),
            "feature_names_": list(self.feature_names_),
            "scaling_": self.scaling_.to_dict(),
        }
        return learned, {}

    def _restore(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        learned = {name: value for name, value in values.items() if name != "raw_weights_"}
        self.weights_ = np.array(learned.pop("weights_"), np.float64)
        self.scaling_ = FeatureScaling.from_dict(learned.pop("scaling_"))
        self.feature_names_ = tuple(learned.pop("feature_names_"))
        if len(self.feature_names_) != len(self.scaling_.mean):
            raise InputError(
                f"there are {len(self.feature_names_)} names for {len(self.scaling_.mean)} features"
            )
        for name, value in learned.items():
            setattr(self, name, value)
        if len(self.weights_) != self.scaling_.columns:
            raise InputError(
                f"the saved ranker has {len(self.weights_)} weights for "
                f"{self.scaling_.columns} columns"
            )


def check_finite(scaling: FeatureScaling, feature_names: Sequence[str]) -> None:
    """Raise an InputError that names a feature with infinite values, if there is one."""
    broken = ~(np.isfinite(scaling.mean) & np.isfinite(scaling.scale))
    if broken.any():
        name = feature_names[int(broken.argmax())]
        raise InputError(f"feature {name} has values that are infinite")
