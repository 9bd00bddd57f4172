import gzip

import numpy as np
import pytest

from prsrank import InputError
from prsrank.data.collections import SPLITS, describe, load_dataset, open_collection, rotation
from prsrank.data.storage import read_stored, write_stored


def write_part(path, queries, label=1, features=2):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(
        f"{label} qid:{q} 1:{q} #docid = d{q}\n0 qid:{q} {features}:1\n" for q in queries
    )
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


def five_parts():
    return [range(10 * i + 1, 10 * i + i + 2) for i in range(5)]


def write_folds(folder, folds=5, label=2):
    names = {"train": "train.txt", "validation": "vali.txt", "test": "test.txt"}
    for fold in range(1, folds + 1):
        for split, name in names.items():
            queries = [q for part in rotation(fold, split) for q in five_parts()[part]]
            write_part(folder / f"Fold{fold}" / name, queries, label=label)


def query_ids(collection, split, fold=1):
    return collection.load(split, fold=fold).query_ids.tolist()


@pytest.mark.parametrize("layout", ["parts", "folds", "converted"])
def test_five_folds_rotate_in_every_layout(tmp_path, layout):
    folder = tmp_path / "MQ2007"
    if layout == "parts":
        for i, queries in enumerate(five_parts()):
            write_part(folder / f"S{i + 1}.txt", queries, label=2)
    else:
        write_folds(folder)
    name = str(folder)
    if layout == "converted":
        name = str(tmp_path / "copy")
        write_stored(open_collection(str(folder)).stored(), name)
    collection = open_collection(name)
    assert (collection.name, collection.folds) == ("MQ2007", 5)
    parts = [list(queries) for queries in five_parts()]
    assert sorted(query_ids(collection, "train")) == parts[0] + parts[1] + parts[2]
    assert sorted(query_ids(collection, "validation")) == parts[3]
    assert sorted(query_ids(collection, "test")) == parts[4]
    assert sorted(query_ids(collection, "train", fold=4)) == parts[0] + parts[3] + parts[4]
    assert sorted(query_ids(collection, "test", fold=3)) == parts[1]
    everything = collection.everything()
    assert sorted(everything.query_ids.tolist()) == sum(parts, [])
    assert everything.features.shape[1] == 46
    assert everything.relevant_from == 1


@pytest.mark.parametrize(
    ("folder", "features", "relevant_from"),
    [("MSLR-WEB10K", 136, 3), ("web30k", 136, 3), ("OHSUMED", 45, 1), ("MQ2007", 46, 1)],
)
def test_a_folder_of_sparse_rows_is_recognised_by_its_name(
    tmp_path, folder, features, relevant_from
):
    write_folds(tmp_path / folder, folds=1, label=relevant_from + 1)
    collection = open_collection(str(tmp_path / folder))
    assert collection.folds == 1
    data = collection.everything()
    assert data.features.shape[1] == features
    assert data.relevant_from == relevant_from
    assert data.lists == 15


@pytest.mark.parametrize(
    ("name", "features", "relevant_from", "first_query"),
    [
        ("MSLR-WEB10K or MSLR-WEB30K", 136, 3, 13),
        ("OHSUMED", 45, 1, 1),
        ("MQ2007", 46, 1, 10),
        ("MQ2008", 46, 1, 10_002),
        ("MQ2007-agg", 21, 1, 10),
        ("MQ2008-agg", 25, 1, 10_002),
    ],
)
@pytest.mark.parametrize("folder", ["QueryLevelNorm", "MQ2008 and others", "WEB10K"])
@pytest.mark.parametrize("letter", ["S", "A", "Fold"])
def test_a_collection_is_recognised_by_its_content_whatever_its_folder_is_called(
    tmp_path, name, features, relevant_from, first_query, folder, letter
):
    for i in range(5):
        queries = range(first_query + i, first_query + i + 1)
        files = [f"{letter}{i + 1}.txt"]
        if letter == "Fold":
            files = [f"Fold{i + 1}/{split}.txt" for split in ("trainingset", "vali", "test")]
        for file in files:
            write_part(
                tmp_path / folder / file, queries, label=relevant_from + 1, features=features
            )
    collection = open_collection(str(tmp_path / folder))
    assert collection.name == ("MSLR-WEB10K" if features == 136 and folder == "WEB10K" else name)
    data = collection.everything()
    assert data.features.shape[1] == features
    assert data.relevant_from == relevant_from


def test_a_file_of_a_known_collection_has_its_threshold(tmp_path):
    write_part(tmp_path / "x.txt", [5, 3], label=2, features=136)
    write_part(tmp_path / "y.txt", [5, 3], label=4, features=136)
    assert load_dataset(str(tmp_path / "y.txt")).relevant_from == 3
    # nothing relevant from 3 on: then it is not that collection
    assert load_dataset(str(tmp_path / "x.txt")).relevant_from is None


@pytest.mark.parametrize("layout", ["S1.txt", "Fold1/train.txt", "x.txt"])
def test_where_the_content_does_not_decide_the_threshold_is_asked_for(tmp_path, layout):
    name = str(tmp_path / "x.txt") if layout == "x.txt" else str(tmp_path)
    files = [layout]
    if layout == "S1.txt":
        files = [f"S{i}.txt" for i in range(1, 6)]
    for i, file in enumerate(files):
        write_part(tmp_path / file, [i], label=2, features=7)
    with pytest.raises(InputError, match=r"labels go up to 2 .*--relevant-from N"):
        load_dataset(name).relevance  # noqa: B018
    told = load_dataset(name, relevant_from=2)
    np.testing.assert_array_equal(told.relevance, told.labels >= 2)
    assert open_collection(name, relevant_from=1).load("train").relevant_from == 1
    for i, file in enumerate(files):
        write_part(tmp_path / file, [i], label=1, features=7)
    assert load_dataset(name).relevant_from == 1
    with pytest.raises(InputError, match="relevant-from must be a label"):
        open_collection(name, relevant_from=float("nan"))


def test_a_converted_copy_keeps_an_undecided_threshold(tmp_path):
    write_part(tmp_path / "x.txt", [5, 3], label=2)
    write_stored(open_collection(str(tmp_path / "x.txt")).stored(), tmp_path / "copy")
    assert load_dataset(str(tmp_path / "copy")).relevant_from is None
    assert load_dataset(str(tmp_path / "copy"), relevant_from=2).relevance.sum() == 2


def test_an_unknown_folder_of_folds_is_read_as_it_is(tmp_path):
    write_folds(tmp_path / "ours", folds=2)
    collection = open_collection(str(tmp_path / "ours"))
    assert (collection.name, collection.folds) == ("ours", 2)
    assert collection.load("train").features.shape[1] == 2


def test_yahoo_has_one_fold_and_may_be_packed(tmp_path):
    for i, split in enumerate(("train", "valid", "test")):
        write_part(tmp_path / f"set1.{split}.txt.gz", range(10 * i, 10 * i + 3))
    collection = open_collection(str(tmp_path))
    assert (collection.name, collection.folds) == ("Yahoo set1", 1)
    assert query_ids(collection, "validation") == [10, 11, 12]
    assert collection.everything().features.shape == (18, 700)
    with pytest.raises(InputError, match="folds 1 to 1, not 2"):
        collection.load("train", fold=2)


def test_absent_files_are_named_with_the_place_of_publication(tmp_path):
    write_part(tmp_path / "MQ2008" / "S1.txt", [10_002])
    with pytest.raises(InputError, match=r"S2\.txt: no such file .*published at https"):
        open_collection(str(tmp_path / "MQ2008"))
    (tmp_path / "web10k" / "Fold1").mkdir(parents=True)
    with pytest.raises(InputError, match=r"train\.txt: no such file .*published at https"):
        open_collection(str(tmp_path / "web10k"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no collection found in this folder"):
        open_collection(str(tmp_path / "empty"))
    with pytest.raises(InputError, match="no such file or folder"):
        open_collection(str(tmp_path / "absent"))


def test_a_file_is_its_own_training_validation_and_test_part(tmp_path):
    write_part(tmp_path / "x.txt", [5, 3])
    write_stored(open_collection(str(tmp_path / "x.txt")).stored(), tmp_path / "x.copy")
    for name in ("x.txt", "x.copy"):
        collection = open_collection(str(tmp_path / name))
        assert not collection.has_splits
        assert [query_ids(collection, split) for split in SPLITS] == [[5, 3]] * 3


def test_synthetic_folds_are_sixty_twenty_twenty():
    collection = open_collection("synthetic:mq2007:50:3")
    parts = [[query_ids(collection, split, fold) for split in SPLITS] for fold in range(1, 6)]
    for train, validation, test in parts:
        assert (len(train), len(validation), len(test)) == (30, 10, 10)
        assert sorted(train + validation + test) == sorted(parts[0][0] + parts[0][1] + parts[0][2])
    assert sorted(sum((test for _, _, test in parts), [])) == sorted(sum(parts[0], []))


@pytest.mark.parametrize("name", ["synthetic:web10k", "synthetic:x:y", "synthetic:a:1:2:3"])
def test_malformed_synthetic_names(name):
    with pytest.raises(InputError, match="synthetic:SHAPE:LISTS"):
        open_collection(name)


def test_load_dataset_takes_another_threshold():
    data = load_dataset("synthetic:web10k:10", relevant_from=1)
    assert np.array_equal(data.relevance, data.labels >= 1)
    with pytest.raises(InputError, match="unknown split 'dev'"):
        load_dataset("synthetic:web10k:10", "dev")


def test_describe_counts(tmp_path):
    (tmp_path / "x.txt").write_text("2 qid:1 1:1\n0 qid:1 3:1\n0 qid:2 1:1\n0.5 qid:3 1:1\n")
    assert describe(load_dataset(str(tmp_path / "x.txt"), relevant_from=2)) == {
        "lists": 3,
        "docs": 4,
        "features": 3,
        "labels": {"0": 2, "0.5": 1, "2": 1},
        "relevant_from": 2,
        "relevant_share": 0.25,
        "list_length": {"min": 1, "median": 1.0, "max": 2},
    }


def test_converted_copy_keeps_splits_of_all_folds(tmp_path):
    write_folds(tmp_path / "MQ2007")
    collection = open_collection(str(tmp_path / "MQ2007"))
    write_stored(collection.stored(), tmp_path / "copy")
    splits = read_stored(tmp_path / "copy").splits
    assert splits.shape == (5, 15)
    for fold in range(5):
        sizes = [collection.load(split, fold=fold + 1).lists for split in SPLITS]
        assert np.bincount(splits[fold], minlength=3).tolist() == sizes
