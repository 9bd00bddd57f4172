"""The export formats, and how a saved ranker is written in one of them."""

from collections.abc import Sequence

from prsrank.errors import InputError
from prsrank.export.exportable import Exportable, exportable
from prsrank.families import Family
from prsrank.files import FileName, atomic_output, existing_file
from prsrank.rankers.base import Ranker
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
