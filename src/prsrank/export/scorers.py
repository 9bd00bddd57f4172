"""What a saved ranker computes, laid open for the export formats."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prsrank.data.preprocess import FeatureScaling
from prsrank.errors import InputError
from prsrank.export.trees import TreeEnsemble
from prsrank.rankers.base import Ranker
from prsrank.types import Floats, Reals

if TYPE_CHECKING:
    from prsrank.rankers.net_ranker import NetRanker


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


@dataclass(frozen=True, eq=False)
class Exportable:
    """A ranker ready to be written.

    Attributes:
        name: name of the model in the search engine.
        ranker: kind of ranker, as on the command line.
        scorer: what it computes.
        known_names: names of the features; None where the ranker keeps none.
    """

    name: str
    ranker: str
    scorer: TreeEnsemble | LinearSum | ScoreLayers
    known_names: tuple[str, ...] | None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features; an InputError where they are not known, empty or not distinct."""
        if self.known_names is None:
            raise InputError(
                f"this format needs names of features, and a {self.ranker} ranker keeps none: "
                "give a file with --feature-names"
            )
        name, count = Counter(self.known_names).most_common(1)[0]
        if count > 1:
            raise InputError(f"the feature name '{name}' is there {count} times")
        if not all(name.strip() for name in self.known_names):
            raise InputError(f"feature {self._first_empty()} has no name")
        return self.known_names

    def _first_empty(self) -> int:
        return 1 + [bool(name.strip()) for name in self.known_names or ()].index(False)

    def refuse_characters(self, characters: str, library: str) -> None:
        """Raise an InputError if a feature name has a character that a library does not take."""
        for name in self.feature_names:
            for character in characters:
                if character in name:
                    shown = {" ": "a space"}.get(character, repr(character))
                    raise InputError(
                        f"the feature name {name!r} has {shown} in it, which {library} does not "
                        "take: give other names with --feature-names"
                    )

    def refusal(self, what: str, formats: str) -> InputError:
        """Return the error that this kind of ranker does not go into a format."""
        return InputError(f"a {self.ranker} ranker cannot be written as {what}: {formats}")


def exportable(
    ranker: Ranker, *, name: str = "prsrank", feature_names: Sequence[str] | None = None
) -> Exportable:
    """Lay open what a fitted ranker computes.

    Args:
        ranker: the ranker.
        name: name of the model in the search engine.
        feature_names: names of the features, in order; default those the ranker keeps.
    """
    from prsrank.rankers.lambdamart import LambdaMART
    from prsrank.rankers.linear_scores import LinearScores
    from prsrank.rankers.net_ranker import NetRanker

    ranker.check_fitted()
    scorer: TreeEnsemble | LinearSum | ScoreLayers
    if isinstance(ranker, LambdaMART):
        scorer = TreeEnsemble(ranker.booster_.model_to_string())
    elif isinstance(ranker, LinearScores):
        scorer = LinearSum(ranker.weights_, ranker.scaling_)
    elif isinstance(ranker, NetRanker):
        scorer = _layers(ranker)
    else:
        raise InputError(f"a {ranker.name} ranker has no export")
    kept = getattr(ranker, "feature_names_", None)
    names = kept if feature_names is None else feature_names
    if names is not None and len(names) != scorer.columns:
        raise InputError(f"{len(names)} feature names for {scorer.columns} features")
    if not name.strip():
        raise InputError("the model's name is empty")
    return Exportable(name, ranker.name, scorer, None if names is None else tuple(names))


def _layers(ranker: "NetRanker") -> ScoreLayers:
    named = ranker.net_.named_weights()
    layers = [
        (named[f"layer{number}.weight"], named[f"layer{number}.bias"])
        for number in range(1, len(named) // 2 + 1)
    ]
    scaling = ranker.input_.scaling
    # The columns behind the features only fill up to a multiple of 8: they are always 0.
    layers[0] = (layers[0][0][:, : scaling.columns], layers[0][1])
    return ScoreLayers(tuple(layers), scaling, signed_log=ranker.input_.log_tails)


def refuse_unlike_zero(scorer: LinearSum | ScoreLayers, names: Sequence[str], engine: str) -> None:
    """Raise an InputError if missing values count otherwise than 0, which is all an engine knows.

    A feature with missing values in training is replaced by its mean and has an indicator. The
    engine would score it as 0, the same only if neither has any weight or the mean is 0.
    """
    columns = scorer.scaling.indicators
    first = scorer.weights if isinstance(scorer, LinearSum) else scorer.layers[0][0]
    weights = np.abs(np.atleast_2d(first)).sum(axis=0)
    for place, column in enumerate(columns.tolist()):
        reason = f"and {engine} scores a missing value as 0"
        if weights[scorer.columns + place] != 0:
            raise InputError(
                f"feature '{names[column]}' has an indicator of missing values with a weight, "
                f"which cannot be carried, {reason}: 'onnx' carries it"
            )
        if weights[column] * scorer.scaling.mean[column] != 0:
            raise InputError(
                f"missing values of feature '{names[column]}' are replaced by the training mean "
                f"{scorer.scaling.mean[column]:g}, {reason}: 'onnx' carries it"
            )
