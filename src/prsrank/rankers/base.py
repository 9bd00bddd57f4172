"""What all rankers share: parameters as in scikit-learn, and folders to save them in."""

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.frames import aligned, features_of, is_frame
from prsrank.errors import InputError
from prsrank.families import Family
from prsrank.files import FileName, atomic_output, read_json, write_json
from prsrank.files.schema import check
from prsrank.rankers.cards import (
    CARD,
    Card,
    check_card,
    check_free,
    check_parameters,
    check_ranges,
    checked_file,
    checksum,
    library_versions,
)
from prsrank.types import Floats
from prsrank.weighting import find_weighting

if TYPE_CHECKING:
    from prsrank.logs.click_log import ClickLog, LogOrFrame
    from prsrank.pairs.log_on_lists import PropensitySource
    from prsrank.propensity.curve import Propensities
    from prsrank.rankers.scorers import Scorer

Quality = Callable[[Floats], float]
"""From the scores of some lists to how good they are; higher is better."""

Validation = RankingDataset | tuple[RankingDataset, Quality]
"""Lists with labels, to stop by NDCG@10 of their relevance; or lists and a `Quality`."""

Progress = Callable[[int, float | None], object]
"""Is told the number of trees or epochs so far, and the last value on the validation part."""

RANKERS: "Family[type[Ranker]]" = Family(
    "ranker",
    {
        "linear": "prsrank.rankers.linear:LinearRanker",
        "lambdamart": "prsrank.rankers.lambdamart:LambdaMART",
        "dnn": "prsrank.rankers.neural.dnn:NeuralRanker",
        "dla": "prsrank.rankers.neural.dla:DLA",
        "svm": "prsrank.rankers.svm:SVMRanker",
        "unbiased_lambdamart": "prsrank.rankers.unbiased_lambdamart:UnbiasedLambdaMART",
        "lightgbm_position": "prsrank.rankers.lightgbm_position:LightGBMPosition",
    },
)
"""The rankers by their names on the command line and in saved models."""


class Ranker(ABC):
    """Base of all rankers, and the facts about each that others ask for.

    The constructor only stores its parameters; `fit` returns self; what is learned ends in
    an underscore. A subclass defines `fit`, `score`, `_state` and `_restore`, and those of the
    facts below that differ.

    Attributes:
        name: key in RANKERS.
        takes_propensities: false for a ranker that learns them itself, from the log.
        prior: how posterior pairs for it take relevance from features: "trees" or "linear".
        default_weighting: the weighting that the ranker is known for.
        stops_early: whether `fit` stops by `validation`; the others take no notice of it.
        search_grid: settings to try, the likeliest first.
        weighting_grid: by name of a weighting, parameters to try besides its own `search_grid`.
        importance_measure: what `feature_importance` means; "" where there is none.
        sums_over_pieces: whether a log in pieces elsewhere can train it by sums over them; the
            others learn from lists that come to this process.
        uses_torch: whether it trains with PyTorch.
        chart_style: index of its style in charts (`prsrank.notebook.vega_lite`); None: the next free.
        about_: what the model was made from (weighting, propensities, ...), kept with it.
        feature_names_: names of the features that it was trained on.
    """

    name: ClassVar[str]
    takes_propensities: ClassVar[bool] = True
    prior: ClassVar[str] = "trees"
    default_weighting: ClassVar[str] = "prs"
    stops_early: ClassVar[bool] = False
    search_grid: ClassVar[Sequence[Mapping[str, Any]]] = ({},)
    weighting_grid: ClassVar[Mapping[str, Sequence[Mapping[str, float]]]] = {}
    importance_measure: ClassVar[str] = ""
    sums_over_pieces: ClassVar[bool] = False
    uses_torch: ClassVar[bool] = False
    chart_style: ClassVar[int | None] = None
    _learned: ClassVar[Any] = dict[str, Any]
    """The type of the JSON values that `_restore` takes; see `prsrank.files.schema.check`."""
    about_: Mapping[str, Any]
    feature_names_: tuple[str, ...]

    @property
    def takes(self) -> str:
        """What `fit` learns from: "pairs", "click sets" or "log" (the clicks themselves)."""
        return "pairs" if self.takes_propensities else "log"

    @property
    def pair_options(self) -> dict[str, Any]:
        """Options with which this ranker's pairs are made from a log or from labels."""
        return {}

    @property
    def trees_(self) -> int | None:
        """How many trees it has; None for a ranker without."""
        return None

    def unfitted(self) -> Self:
        """Return a ranker to fit anew: same settings, and no longer than this one was trained."""
        return type(self)(**self.get_params())

    @classmethod
    def accepted(cls, **settings: Any) -> dict[str, Any]:
        """Return those of the settings that the constructor takes, such as trees and seed.

        >>> ranker_class("linear").accepted(trees=300, missing="impute")
        {'missing': 'impute'}
        """
        return {name: settings[name] for name in settings if name in cls._parameter_names()}

    def check_settings(self) -> None:
        """Raise an InputError for a parameter that is out of its range."""
        check_ranges(self.get_params(), self.name)

    def feature_importance(self) -> dict[str, float]:
        """Return how much each feature matters, by `importance_measure`; empty if not known."""
        return {}

    def _by_size(self, importance: npt.NDArray) -> dict[str, float]:
        order = np.argsort(-importance, kind="stable")
        return {self.feature_names_[i]: float(importance[i]) for i in order}

    def propensities(self) -> "Propensities | None":
        """Return the curve that was learned with the ranker, if any; it has no intervals."""
        return None

    def scorer(self) -> "Scorer":
        """Return what the fitted ranker computes, laid open for export."""
        raise InputError(f"a {self.name} ranker has no export")

    @abstractmethod
    def fit(
        self,
        lists: RankingDataset,
        what: Any,
        *,
        validation: Validation | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from clicks, or from labels.

        Args:
            lists: the lists with their features.
            what: what `pairs` made of a log on these lists.
            validation: for a ranker that stops early: what tells when.
            progress: is told after each tree or epoch.
        """

    def pairs(
        self,
        log: "LogOrFrame",
        dataset: RankingDataset,
        propensities: "PropensitySource" = None,
        weighting: str | None = None,
        *,
        parameters: Mapping[str, float] | None = None,
    ) -> Any:
        """Fold a log into what `fit` takes; the arguments are those of `PairSet.from_log`.

        For a ranker that takes the log itself the weighting has no effect, and propensities are
        an InputError: both are learned.
        """
        if is_frame(log):
            from prsrank.logs.click_log import as_click_log  # numba

            log = as_click_log(log)
        if self.takes == "log":
            if propensities is not None:
                raise InputError(f"{self.name} learns its propensities: give it none")
            return self._folded(log, dataset)
        # numba, which the nets can do without
        from prsrank.pairs.click_sets import ClickSets
        from prsrank.pairs.pair_set import PairSet
        from prsrank.pairs.posterior import doubly_robust_pairs, posterior_pairs

        chosen = find_weighting(weighting or self.default_weighting)
        options: dict[str, Any] = {"parameters": parameters}
        if self.takes == "click sets" and not chosen.of_relevance:
            return ClickSets.from_log(log, dataset, propensities, chosen, **options)
        options |= self.pair_options
        if not chosen.of_relevance:
            return PairSet.from_log(log, dataset, propensities, chosen, **options)
        of_relevance: Any = (
            posterior_pairs if chosen.against == "posterior" else doubly_robust_pairs
        )
        return of_relevance(log, dataset, propensities, prior=self.prior, **options)

    def _folded(self, log: "ClickLog", dataset: RankingDataset) -> Any:
        """Fold a log into what a ranker that takes the log learns from."""
        return log

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters, as scikit-learn does."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters of the constructor; an unknown one is an InputError, and changes none."""
        names = self._parameter_names()
        for name in parameters:
            if name not in names:
                raise InputError(f"{type(self).__name__} has no parameter '{name}': {names}")
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({values})"

    @abstractmethod
    def score(self, features: npt.ArrayLike) -> Floats:
        """Return the score of each doc (a row of features); a higher score ranks higher."""

    def predict(self, frame: Any) -> Any:
        """Return the score of each row of a frame, in the order of its rows.

        Columns are picked by the names of the features that the ranker was trained on.

        Args:
            frame: as for `RankingDataset.from_frame`, which may have no queries, docs and labels;
                a `RankingDataset`; or an array of features, as for `score`.

        Returns:
            A pandas series with the frame's index for a pandas frame, else an array.

        Raises:
            InputError: naming a feature that the frame lacks, or a value that is no number.

        >>> from prsrank.rankers.linear import LinearRanker
        >>> from prsrank.pairs.pair_set import PairSet
        >>> data = RankingDataset.from_frame(
        ...     {"query_id": [1, 1], "doc_id": [1, 2], "price": [1.0, 3.0], "label": [1, 0]},
        ...     label="label")
        >>> ranker = LinearRanker().fit(data, PairSet.from_labels(data))
        >>> scores = ranker.predict({"brand": ["x", "y"], "price": [3.0, 1.0]})
        >>> bool(scores[0] < scores[1])
        True
        """
        self.check_fitted()
        if not (isinstance(frame, RankingDataset) or is_frame(frame)):
            return self.score(frame)
        return aligned(self.score(features_of(frame, self.feature_names_)), frame)

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return what was learned: JSON values, and files by name."""

    @abstractmethod
    def _restore(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        """Take back what `_state` gave."""

    def learned_from(self, log: FileName) -> bool:
        """Tell whether its card names this log, or all of a log that this one was held out of."""
        about, log_file = getattr(self, "about_", {}), Path(log).resolve()
        own = about.get("log")
        beside = log_file.parent.parent / "manifest.json"
        held_out = log_file.parent.name == "held_out" and beside.is_file()
        if about.get("trained_on") == "all sessions" and held_out:
            return bool(own == read_json(beside).get("settings", {}).get("log"))
        return isinstance(own, str) and Path(own).resolve() == log_file

    def check_fitted(self) -> None:
        """Raise an InputError before `fit`."""
        if not any(name.endswith("_") and not name.startswith("_") for name in vars(self)):
            raise InputError(f"this {type(self).__name__} is not fitted yet: call fit first")

    def save(self, path: FileName, *, about: Mapping[str, Any] | None = None) -> None:
        """Write the ranker to a folder in open formats, whole or not at all.

        Args:
            path: the folder; replaced if it holds a saved ranker.
            about: JSON values to keep with it, such as weighting, propensities and data.
        """
        self.check_fitted()
        values, files = self._state()
        card: dict[str, Any] = {
            "ranker": self.name,
            "parameters": self.get_params(),
            "learned": values,
            "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
            "about": dict(getattr(self, "about_", {}) if about is None else about),
            "versions": library_versions(),
        }
        card["checksum"] = checksum(card)
        check_free(path)
        with atomic_output(path, folder=True) as draft:
            for name, content in files.items():
                (draft / name).write_bytes(content)
            write_json(draft / CARD, card)


def load_ranker(path: FileName) -> Ranker:
    """Read a ranker that `save` wrote, or the one in a folder of `fit`; its scores are identical."""
    folder = Path(path)
    if not (folder / CARD).is_file() and (folder / "model" / CARD).is_file():
        folder = folder / "model"
    if (folder / "judged").is_dir():
        raise InputError(f"{folder}: the fit wrote no model, for its log is too thin")
    if not (folder / CARD).is_file():
        raise InputError(f"{folder}: is not a saved ranker (no {CARD} in it)")
    card = read_json(folder / CARD, Card)
    try:
        kind = ranker_class(card["ranker"])
        check_card(card)
        check_parameters(kind, card["parameters"])
        parameters = {
            name: tuple(value) if isinstance(value, list) else value  # JSON has no tuples
            for name, value in card["parameters"].items()
        }
        contents = {name: checked_file(folder, name, sha) for name, sha in card["files"].items()}
        check(card["learned"], kind._learned, "learned")
        ranker = kind(**parameters)
        ranker._restore(card["learned"], contents)
        ranker.about_ = card["about"]
    except InputError as error:
        raise InputError(f"{folder / CARD}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / CARD}: is not a whole ranker card: {error!r}") from error
    return ranker


def ranker_class(name: str) -> type[Ranker]:
    """Return the class of a name of RANKERS."""
    return RANKERS.find(name)


def make_ranker(
    name: str, weighting: str | None, values: Mapping[str, Any], *, seed: int = 0
) -> tuple[Ranker, str, dict[str, float]]:
    """Make a ranker, and tell its parameters from those of its weighting.

    Args:
        name: a name of RANKERS.
        weighting: a name of `WEIGHTINGS`; None: the ranker's own.
        values: parameters of the ranker and of the weighting, by name.
        seed: for a ranker that takes one.

    Returns:
        The ranker, the name of the weighting, and the weighting's parameters.

    >>> make_ranker("linear", "ips", {"l2": 0.1, "tau": 0.05})[1:]
    ('ips', {'tau': 0.05})
    """
    kind = ranker_class(name)
    chosen = find_weighting(weighting or kind.default_weighting)
    names = kind._parameter_names()
    rest = {key: value for key, value in values.items() if key not in names}
    for key in rest:
        if key not in chosen.parameters:
            raise InputError(
                f"there is no parameter '{key}'; {name} has: {', '.join(names)}; "
                f"{chosen.name} has: {', '.join(chosen.parameters) or 'none'}"
            )
    settings = kind.accepted(**{"seed": seed, **values})
    check_parameters(kind, settings)
    check(rest, dict[str, float], chosen.name)
    check_ranges(rest, chosen.name)
    return kind(**settings), chosen.name, rest


def checked_features(features: npt.ArrayLike, columns: int) -> npt.NDArray:
    """Return features as a matrix; an InputError if the number of columns differs."""
    values = np.asarray(features)
    if values.ndim != 2 or values.shape[1] != columns:
        raise InputError(
            f"features have shape {values.shape}, but the ranker was trained on {columns} columns"
        )
    return values
