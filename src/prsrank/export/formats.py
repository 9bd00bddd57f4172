"""What a saved ranker computes, laid open, and the formats that it is written in."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prsrank.errors import InputError
from prsrank.families import Family
from prsrank.files import FileName, atomic_output, existing_file
from prsrank.rankers.base import Ranker
from prsrank.rankers.scorers import LinearSum, ScoreLayers, Scorer
from prsrank.rankers.trees import TreeEnsemble
from prsrank.types import ExportFormat

FORMATS: Family[ExportFormat] = Family(
    "format",
    {
        "lightgbm": "prsrank.export.lightgbm_text:write_lightgbm",
        "xgboost": "prsrank.export.xgboost:write_xgboost",
        "elasticsearch": "prsrank.export.elasticsearch:write_createmodel",
        "opensearch": "prsrank.export.elasticsearch:write_createmodel",
        "elastic-ml": "prsrank.export.elastic_ml:write_elastic_ml",
        "ranklib": "prsrank.export.ranklib:write_ranklib",
        "solr": "prsrank.export.solr:write_solr",
        "vespa": "prsrank.export.vespa:write_vespa",
        "onnx": "prsrank.export.onnx:write_onnx",
    },
)


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
    scorer: Scorer
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
            nameless = [bool(name.strip()) for name in self.known_names].index(False)
            raise InputError(f"feature {nameless + 1} has no name")
        return self.known_names

    def named(self, columns: Sequence[int]) -> str:
        """Return words that name the first of some features."""
        named = ", ".join(f"'{self.feature_names[column]}'" for column in columns[:3])
        return named + (" and others" if len(columns) > 3 else "")

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

    def trees(self, problem: str, formats: str) -> TreeEnsemble:
        """Return the trees of a ranker; an InputError for one that has none."""
        if not isinstance(self.scorer, TreeEnsemble):
            raise self.refusal(problem, formats)
        return self.scorer

    def refusal(self, problem: str, formats: str) -> InputError:
        """Return the error that this kind of ranker does not go into a format."""
        return InputError(f"a {self.ranker} ranker cannot be written as {problem}: {formats}")


def exportable(
    ranker: Ranker, *, name: str = "prsrank", feature_names: Sequence[str] | None = None
) -> Exportable:
    """Lay open what a fitted ranker computes.

    Args:
        ranker: the ranker.
        name: name of the model in the search engine.
        feature_names: names of the features, in order; default those the ranker keeps.
    """
    scorer = ranker.scorer()
    kept = getattr(ranker, "feature_names_", None)
    names = kept if feature_names is None else feature_names
    if names is not None and len(names) != scorer.columns:
        raise InputError(f"{len(names)} feature names for {scorer.columns} features")
    if not name.strip():
        raise InputError("the model's name is empty")
    return Exportable(name, ranker.name, scorer, None if names is None else tuple(names))


def refuse_unlike_zero(scorer: LinearSum | ScoreLayers, names: Sequence[str], engine: str) -> None:
    """Raise an InputError if missing values count otherwise than 0, which is all an engine knows.

    A feature with missing values in training is replaced by its mean and has an indicator. The
    engine would score it as 0, the same only if neither has any weight or the mean is 0.
    """
    columns = scorer.scaling.indicators
    first = scorer.weights if isinstance(scorer, LinearSum) else scorer.layers[0][0]
    weights = np.abs(np.atleast_2d(first)).sum(axis=0)
    for index, column in enumerate(columns.tolist()):
        reason = f"and {engine} scores a missing value as 0"
        if weights[scorer.columns + index] != 0:
            raise InputError(
                f"feature '{names[column]}' has an indicator of missing values with a weight, "
                f"which cannot be carried, {reason}: 'onnx' carries it"
            )
        if weights[column] * scorer.scaling.mean[column] != 0:
            raise InputError(
                f"missing values of feature '{names[column]}' are replaced by the training mean "
                f"{scorer.scaling.mean[column]:g}, {reason}: 'onnx' carries it"
            )


def export_ranker(
    ranker: Ranker,
    path: FileName,
    *,
    to: str,
    name: str = "prsrank",
    feature_names: Sequence[str] | None = None,
) -> Exportable:
    """Write a fitted ranker in a format of another program, whole or not at all.

    What the format cannot hold is an InputError; what an older version of the program would
    ignore is a DataWarning.

    Args:
        ranker: the ranker.
        path: the file; replaced if it is there.
        to: a name of FORMATS.
        name: name of the model in the search engine.
        feature_names: names of the features, in order; default those the ranker keeps.

    Returns:
        What was written.

    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from prsrank.data.dataset import RankingDataset
    >>> from prsrank.pairs.pair_set import PairSet
    >>> from prsrank.rankers.linear import LinearRanker
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> data = RankingDataset(x, np.arange(0, 201, 10), labels=(x[:, 0] > 0.5))
    >>> ranker = LinearRanker().fit(data, PairSet.from_labels(data))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = export_ranker(ranker, f"{folder}/model.txt", to="ranklib")
    ...     print(Path(folder, "model.txt").read_text().splitlines()[0])
    ## Linear Regression
    """
    write = FORMATS.find(to)
    model = exportable(ranker, name=name, feature_names=feature_names)
    content = write(model)
    with atomic_output(path) as draft:
        draft.write_bytes(content)
    return model


def read_feature_names(path: FileName) -> list[str]:
    """Read feature names from a text file, one a line, in the order of the columns."""
    file = existing_file(path)
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not text in UTF-8") from error
