"""What the rankers with a scoring net share: the net's input, scores, files."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.preprocess import FeatureScaling, StoredScaling
from prsrank.errors import InputError
from prsrank.rankers.base import Progress, Ranker, Validation, checked_features
from prsrank.rankers.scorers import ScoreLayers
from prsrank.types import Floats, Reals

if TYPE_CHECKING:
    from prsrank.rankers.neural.score_net import ScoreNet

_ROWS = 1 << 16
_FILE = "weights.safetensors"


class FeatureInput:
    """What a net sees of raw features: standardised, long tails drawn in, zero columns behind.

    With z the standardised value a column holds sign(z) log(1 + |z|): a feature with a long
    tail would otherwise drive the first steps. Zero columns fill up to a multiple of 8.

    Args:
        scaling: the standardisation.
        log_tails: False leaves z as it is.
    """

    def __init__(self, scaling: FeatureScaling, *, log_tails: bool = True) -> None:
        self.scaling = scaling
        self.log_tails = log_tails
        self.columns = -(-scaling.columns // 8) * 8

    def __call__(self, features: npt.NDArray) -> Reals:
        """Return the columns of each doc."""
        values = self.scaling.transform(features)
        out = np.zeros((len(values), self.columns), np.float32)
        tails = np.copysign(np.log1p(np.abs(values)), values) if self.log_tails else values
        out[:, : values.shape[1]] = tails
        return out


class LearnedNet(TypedDict):
    """What a card says of a net, beside its weights."""

    scaling: StoredScaling
    log_tails: bool
    feature_names: list[str]
    hidden: list[int]
    history: list[dict[str, float | None]]
    best_epoch: int


@dataclass(eq=False, repr=False)
class NetRanker(Ranker):
    """What the rankers with a scoring net share: the course of training, scores and files.

    Args:
        hidden: width of each hidden layer.
        epochs: the most epochs.
        patience: epochs without a better validation value after which training stops.
        device: "auto" (a CUDA GPU if there is one), "cpu", "cuda", "cuda:1", ...
        seed: of initial weights and batches.
        missing: "error" or "impute": what to do with missing values; see `FeatureScaling`.
        log_tails: draw in the long tails of features, sign(z) log(1 + |z|) of the standardised
            z. False for a net that Solr is to serve, which knows no logarithm.

    Attributes:
        net_: the trained net.
        input_: the transformation of features.
        feature_names_: names of the features.
        history_: one record per epoch: `loss`, and `validation` if there is any.
        best_epoch_: index of the epoch whose weights are kept.
    """

    stops_early: ClassVar[bool] = True
    _learned: ClassVar[Any] = LearnedNet
    uses_torch: ClassVar[bool] = True

    hidden: Sequence[int] = (256, 256, 256)
    _: KW_ONLY
    epochs: int = 100
    patience: int | None = 10
    device: str = "auto"
    seed: int = 0
    missing: str = "error"
    log_tails: bool = True

    def unfitted(self) -> Self:
        """Return a ranker to fit anew, with as many epochs as this one's best."""
        return super().unfitted().set_params(epochs=self.best_epoch_ + 1)

    def fit(
        self,
        lists: RankingDataset,
        what: Any,
        *,
        validation: Validation | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train; with `validation` keep the best epoch's weights and stop early.

        Args:
            lists: the lists.
            what: their weighted pairs; for DLA the clicks on them, or what `pairs` made of those.
            validation: as for every ranker.
            progress: is told the number of epochs and the validation value after each.
        """
        from prsrank.rankers.neural.epochs import train_epochs, validation_measure

        self.check_settings()
        scaling = FeatureScaling.fit(lists.features, missing=self.missing)
        net_input = FeatureInput(scaling, log_tails=self.log_tails)
        learner = self._learner(lists, what, net_input)
        measure = validation_measure(validation, learner.net, net_input)
        self.history_, self.best_epoch_ = train_epochs(
            learner, measure, epochs=self.epochs, patience=self.patience, progress=progress
        )
        self.input_, self.feature_names_ = net_input, lists.feature_names
        self._take(learner)
        return self

    @abstractmethod
    def _learner(self, lists: RankingDataset, what: Any, net_input: FeatureInput) -> Any:
        """Return what trains the net: a `Trainer` or `DualLearner`."""

    def _take(self, learner: Any) -> None:
        """Keep what was learned."""
        self.net_: ScoreNet = learner.net

    def scorer(self) -> ScoreLayers:
        """Return the layers and the transformation of features."""
        self.check_fitted()
        named = self.net_.named_weights()
        layers = [
            (named[f"layer{number}.weight"], named[f"layer{number}.bias"])
            for number in range(1, len(named) // 2 + 1)
        ]
        scaling = self.input_.scaling
        # The columns behind the features only fill up to a multiple of 8: they are always 0.
        layers[0] = (layers[0][0][:, : scaling.columns], layers[0][1])
        return ScoreLayers(tuple(layers), scaling, signed_log=self.input_.log_tails)

    def score(self, features: npt.ArrayLike) -> Floats:
        """Return the score of each doc, computed in float32."""
        self.check_fitted()
        values = checked_features(features, len(self.input_.scaling.mean))
        scores = np.empty(len(values))
        for start in range(0, len(values), _ROWS):
            part = self.input_(values[start : start + _ROWS])
            scores[start : start + _ROWS] = self.net_.score(part)
        return scores

    def _state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        save = _safetensors().numpy.save
        values = {
            "scaling": self.input_.scaling.to_dict(),
            "log_tails": self.input_.log_tails,
            "feature_names": list(self.feature_names_),
            "hidden": list(self.net_.sizes[1:-1]),
            "history": self.history_,
            "best_epoch": self.best_epoch_,
        }
        return values, {_FILE: save(self.net_.named_weights())}

    def _restore(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        from prsrank.rankers.neural.score_net import ScoreNet
        from prsrank.rankers.neural.torch_library import find_device

        scaling = FeatureScaling.from_dict(values["scaling"])
        self.input_ = FeatureInput(scaling, log_tails=values["log_tails"])
        self.feature_names_ = tuple(values["feature_names"])
        if len(self.feature_names_) != len(scaling.mean):
            raise InputError(
                f"there are {len(self.feature_names_)} names for {len(scaling.mean)} features"
            )
        sizes = (self.input_.columns, *values["hidden"], 1)
        weights = _checked_weights(files[_FILE], sizes)
        try:
            device = find_device(self.device)
        except InputError:  # trained on a GPU, read where there is none
            device = find_device("cpu")
        self.net_ = ScoreNet(self.input_.columns, values["hidden"], seed=0, device=device)
        self.net_.set_weights(weights)
        self.history_, self.best_epoch_ = values["history"], values["best_epoch"]


def default_batch(lists: int) -> int:
    """Return the power of two next below a 32nd of the lists, from 16 to 4,096.

    >>> default_batch(600), default_batch(10**7)
    (16, 4096)
    """
    return int(2 ** np.clip(np.floor(np.log2(max(lists / 32, 1))), 4, 12))


def _checked_weights(content: bytes, sizes: Sequence[int]) -> dict[str, Reals]:
    """Read weights; an InputError unless they are those of a net of these sizes, and finite."""
    library = _safetensors()
    try:
        arrays: dict[str, Reals] = library.numpy.load(content)
    except (library.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{_FILE}: cannot be read: {error}") from error
    # before a net of these sizes is made: the card may ask for any
    wanted: dict[str, tuple[int, ...]] = {}
    for number, (columns, width) in enumerate(pairwise(sizes), 1):
        wanted |= {f"layer{number}.weight": (width, columns), f"layer{number}.bias": (width,)}
    if {name: array.shape for name, array in arrays.items()} != wanted:
        raise InputError(f"{_FILE}: its arrays are not those of a net of {list(sizes)}")
    for name, array in arrays.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise InputError(f"{_FILE}: {name} holds values that are not finite float32")
    return arrays


def _safetensors() -> Any:
    """Return the library, or one line that says what to install."""
    try:
        import safetensors.numpy
    except ImportError as error:
        raise InputError(
            "the neural rankers need safetensors: pip install 'prsrank[dnn]'"
        ) from error
    return safetensors
