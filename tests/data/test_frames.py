"""Frames of every library give the same lists, and scores come back in the frame's own order."""

from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.linear import LinearRanker

COLUMNS = {
    "q": ["b", "a", "b", "c", "a"],
    "d": [10, 10, 11, 10, 12],
    "stock": [3, None, 1, 4, 0],
    "title": ["u", "v", "w", "x", None],
    "price": [1.5, 2.5, None, 0.5, 4.0],
    "grade": [1, 0, 0, 2, 1],
}
FRAMES = {
    "pandas": lambda: pd.DataFrame(COLUMNS, index=[9, 7, 5, 3, 1]),
    "pandas, nullable": lambda: pd.DataFrame(COLUMNS).convert_dtypes(),
    "pandas, Arrow types": lambda: pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
    "pandas, categories": lambda: pd.DataFrame(COLUMNS).astype({"q": "category"}),
    "pandas, objects": lambda: pd.DataFrame(COLUMNS, dtype=object),
    "Polars": lambda: pl.DataFrame(COLUMNS),
    "Polars, lazy": lambda: pl.LazyFrame(COLUMNS),
    "Arrow": lambda: pa.table(COLUMNS),
    "mapping": lambda: COLUMNS,
    "mapping of arrays": lambda: {name: np.array(v) for name, v in COLUMNS.items()},
}


def relation(connection):
    connection.register("given", pa.table(COLUMNS))
    return connection.sql("SELECT *, price::DECIMAL(9, 2) AS decimal FROM given")


def lists_of(frame, **options):
    return RankingDataset.from_frame(frame, query="q", doc="d", label="grade", **options)


def check(data):
    assert data.query_ids.tolist() == ["b", "a", "c"]
    assert data.offsets.tolist() == [0, 2, 4, 5]
    assert data.doc_ids.tolist() == [10, 11, 10, 12, 10]
    assert data.labels.tolist() == [1, 0, 0, 1, 2]
    assert data.feature_names[:2] == ("stock", "price")
    expected = [[3, 1.5], [1, np.nan], [np.nan, 2.5], [0, 4], [4, 0.5]]
    assert np.array_equal(data.features[:, :2], np.array(expected, np.float32), equal_nan=True)


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_every_library_give_the_same_lists(kind):
    data = lists_of(FRAMES[kind]())
    check(data)
    assert data.feature_names == ("stock", "price")


def test_a_duckdb_relation_gives_the_same_lists_and_decimals_are_numbers():
    with duckdb.connect() as connection:
        data = lists_of(relation(connection))
    check(data)
    assert np.array_equal(data.features[:, 2], data.features[:, 1], equal_nan=True)


def test_decimals_of_arrow_are_numbers():
    table = pa.table({"q": [1, 1], "x": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2))})
    data = RankingDataset.from_frame(table, query="q", doc=None)
    assert np.array_equal(data.features, [[1.25], [np.nan]], equal_nan=True)
    assert data.doc_ids is None


def test_features_can_be_named_in_an_order_of_ones_own_and_booleans_count_0_and_1():
    frame = pd.DataFrame(COLUMNS).assign(new=[True, False, True, False, False])
    data = lists_of(frame, features=["price", "new"])
    assert data.feature_names == ("price", "new")
    assert data.features[:, 1].tolist() == [1, 1, 0, 0, 0]
    assert "new" not in lists_of(frame).feature_names


def changed(**values):
    return pd.DataFrame({**COLUMNS, **values})


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (changed(), {"query": "Q"}, "the frame has no column 'Q' (query); did you mean 'q'?"),
        (changed(), {"features": ["prize"]}, "has no column 'prize'; did you mean 'price'?"),
        (changed(), {"label": "zzz"}, "no column 'zzz' (label); it has q, d, stock"),
        (changed(), {"doc": "doc_id"}, "no column 'doc_id' (doc); doc=None where docs have no ids"),
        (changed(), {"features": ["title"]}, "'title' must hold numbers, but row 0 has 'u'"),
        (
            changed(price=[1.0, 2.0, "NULL", 3.0, 4.0]),
            {"features": ["price"]},
            "column 'price' must hold numbers, but row 2 has 'NULL'",
        ),
        (changed(q=["b", "a", None, "c", "a"]), {}, "column 'q' is null in row 2"),
        (changed(d=[1, 2, 3, None, 5]), {}, "column 'd' is null in row 3"),
        (changed(grade=[1, 0, 0, None, 1]), {}, "column 'grade' is null in row 3"),
        (changed(q=[1.5, 1, 1, 1, 1]), {}, "column 'q': ids must be integers or strings"),
        (changed(d=[10, 10, 10, 10, 12]), {}, "rows 0 and 2 are both doc 10 of query b: 1 of 5"),
        (changed(price=[1.0, 2.0, 1e300, 3.0, 4.0]), {}, "'price': 1e+300 in row 2 is too large"),
        (changed(), {"features": ["grade"]}, "column 'grade' is the label, so it cannot be"),
        (changed(), {"features": ["price", "price"]}, "a feature is named twice"),
        (changed()[["q", "d", "grade"]], {}, "the frame has no column of numbers"),
        (changed()[:0], {"features": ["price"]}, "the frame has no rows"),
        (
            [1, 2],
            {},
            "give a pandas, Polars, Arrow or DuckDB frame or a mapping of arrays, not list",
        ),
        ({"q": [1, 2], "d": [1]}, {}, "the columns must be flat and of one length: q (2,), d (1,)"),
    ],
)
def test_bad_frames_are_named_by_column_and_row(frame, options, message):
    with pytest.raises(InputError) as caught:
        RankingDataset.from_frame(frame, **({"query": "q", "doc": "d", "label": "grade"} | options))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_two_columns_of_one_name_are_an_error():
    frame = pd.DataFrame([[1, 2, 3.0]], columns=["q", "d", "d"])
    with pytest.raises(InputError, match=r"two columns of one name.*'d' 2 times"):
        RankingDataset.from_frame(frame, query="q", doc="d")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    rows = 200
    return pd.DataFrame(
        {"query_id": rng.permutation(rows) % 20, "doc_id": np.arange(rows)}
        | {name: rng.normal(size=rows) for name in ("x", "y", "z")}
        | {"label": rng.integers(0, 3, rows)},
        index=rng.permutation(rows),
    )


def trained(kind, frame):
    data = RankingDataset.from_frame(frame, label="label")
    return data, kind.fit(data, PairSet.from_labels(data, **kind.pair_options))


def test_predict_gives_scores_with_the_index_of_the_frame(frame):
    data, ranker = trained(LambdaMART(trees=5), frame)
    scores = ranker.predict(frame[["z", "label", "y", "x"]])
    assert isinstance(scores, pd.Series)
    assert scores.index.equals(frame.index)
    # the frame's rows, found again by query and doc in the data set
    place = {key: row for row, key in enumerate(data.doc_ids.tolist())}
    rows = [place[doc] for doc in frame["doc_id"]]
    assert np.array_equal(scores, ranker.score(data.features)[rows])
    assert frame.assign(score=scores)["score"].notna().all()


def test_predict_takes_what_other_libraries_and_score_take(frame):
    data, ranker = trained(LinearRanker(), frame)
    expected = ranker.predict(frame).to_numpy()
    for other in (pl.DataFrame(frame), pa.table(dict(frame)), dict(frame)):
        found = ranker.predict(other)
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found, expected)
    assert np.array_equal(ranker.predict(frame[["x", "y", "z"]].to_numpy(np.float32)), expected)
    assert np.array_equal(ranker.predict(data), ranker.score(data.features))
    turned = RankingDataset.from_frame(frame, features=["z", "y", "x"])
    assert np.array_equal(ranker.predict(turned), ranker.predict(data))


def test_predict_names_the_feature_that_is_missing(frame):
    data, ranker = trained(LinearRanker(), frame)
    with pytest.raises(InputError, match="the frame has no column 'y'"):
        ranker.predict(frame.drop(columns="y"))
    other = RankingDataset.from_frame(frame, features=["x"])
    with pytest.raises(InputError, match="the data set has no feature 'y'"):
        ranker.predict(other)
    with pytest.raises(InputError, match="not fitted yet"):
        LinearRanker().predict(data)
