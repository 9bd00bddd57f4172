"""What a fitted ranker computes, laid open: trees, a weighted sum, or layers of a net."""

from dataclasses import dataclass

import numpy as np

from prsrank.data.preprocess import FeatureScaling
from prsrank.rankers.trees import TreeEnsemble
from prsrank.types import Floats, Reals


@dataclass(frozen=True, eq=False)
class LinearSum:
    r"""$s = w \cdot x'$ over standardised features and indicators of missing values.

    Attributes:
        weights: w, one per feature, then one per indicator.
        scaling: x' of x.
    """

    weights: Floats
    scaling: FeatureScaling

    @property
    def columns(self) -> int:
        """Number of features the model takes."""
        return len(self.scaling.mean)

    @property
    def raw_weights(self) -> Floats:
        """Weights of the raw features."""
        return np.asarray(self.weights[: self.columns] / self.scaling.scale)

    @property
    def intercept(self) -> float:
        """Score of a doc whose raw features are all 0."""
        return float(-self.raw_weights @ self.scaling.mean)


@dataclass(frozen=True, eq=False)
class ScoreLayers:
    """A net on standardised features: ReLU layers and a last linear one.

    Attributes:
        layers: weight (outputs x inputs) and bias of each layer.
        scaling: x' of x.
        signed_log: the net sees sign(x') log(1 + |x'|) in place of x'.
    """

    layers: tuple[tuple[Reals, Reals], ...]
    scaling: FeatureScaling
    signed_log: bool

    @property
    def columns(self) -> int:
        """Number of features the model takes."""
        return len(self.scaling.mean)


Scorer = TreeEnsemble | LinearSum | ScoreLayers
