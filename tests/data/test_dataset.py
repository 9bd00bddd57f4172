import numpy as np
import pytest

from prsrank import InputError, RankingDataset, concatenate


def make(lengths=(2, 0, 3), **changes):
    docs = sum(lengths)
    arrays = {
        "features": np.arange(docs * 2, dtype=float).reshape(docs, 2),
        "offsets": np.cumsum([0, *lengths]),
        "labels": np.arange(docs) % 3,
        "doc_ids": [f"d{i}" for i in range(docs)],
        "query_ids": [10 * (i + 1) for i in range(len(lengths))],
    }
    return RankingDataset(**(arrays | changes))


def test_counts_and_defaults():
    data = RankingDataset(np.zeros((3, 2)), [0, 1, 3])
    assert (data.lists, data.docs) == (2, 3)
    assert data.feature_names == ("1", "2")
    assert data.query_ids.tolist() == [0, 1]
    assert data.doc_names.tolist() == [0, 0, 1]
    assert data.features.dtype == np.float32


def test_arrays_cannot_be_changed_and_inputs_stay_writable():
    features = np.zeros((3, 2), np.float32)
    data = RankingDataset(features, [0, 3])
    with pytest.raises(ValueError, match="read-only"):
        data.features[0, 0] = 1
    with pytest.raises(AttributeError):
        data.features = features
    features[0, 0] = 1


@pytest.mark.parametrize("chosen", [[2, 0], np.array([True, False, True]), slice(0, 2), []])
def test_select_keeps_rows_of_lists_together(chosen):
    data = make()
    picked = data.select(np.arange(3)[chosen] if isinstance(chosen, slice) else chosen)
    expected = np.arange(3)[chosen] if len(np.arange(3)[chosen]) else []
    rows = [np.arange(data.offsets[q], data.offsets[q + 1]) for q in expected]
    rows = np.concatenate(rows) if rows else np.zeros(0, int)
    assert np.array_equal(picked.features, data.features[rows])
    assert picked.doc_ids.tolist() == data.doc_ids[rows].tolist()
    assert picked.query_ids.tolist() == [10 * (q + 1) for q in expected]


def test_concatenate_is_undone_by_select():
    data = make((2, 1, 3, 4))
    parts = [data.select([0]), data.select([1, 2]), data.select([3])]
    joined = concatenate(parts)
    for name in ("features", "offsets", "labels", "query_ids", "doc_ids"):
        assert np.array_equal(getattr(joined, name), getattr(data, name))


def test_concatenate_mixes_integer_and_string_ids():
    joined = concatenate([make((1,), query_ids=[3]), make((1,), query_ids=["x"])])
    assert joined.query_ids.tolist() == ["3", "x"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offsets": [0, 3, 2, 5]}, "never fall"),
        ({"offsets": [0, 2]}, "5 docs"),
        ({"labels": [1, 2]}, "labels has shape"),
        ({"labels": [0, np.nan, 1, 1, 1]}, "label of doc 1 is NaN"),
        ({"feature_names": ("a",)}, "1 feature names for 2"),
        ({"query_ids": [1.5, 2.5, 3.5]}, "integers or strings"),
        ({"doc_ids": ["a"]}, "doc_ids has shape"),
    ],
)
def test_inconsistent_arrays_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        make(**changes)


def test_concatenate_refuses_what_does_not_fit():
    with pytest.raises(InputError, match="more than one part"):
        concatenate([make(), make()])
    with pytest.raises(InputError, match="differ in features"):
        concatenate([make((1,)), RankingDataset(np.zeros((1, 3)), [0, 1])])
    with pytest.raises(InputError, match="nothing"):
        concatenate([])


def test_relevance_follows_the_threshold():
    assert make(relevant_from=2).relevance.tolist() == [0, 0, 1, 0, 0]
    with pytest.raises(InputError, match="no labels"):
        _ = make(labels=None).relevance
