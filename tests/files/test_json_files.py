import os

import pytest

from prsrank import InputError
from prsrank.files import atomic_output, existing_file, read_json, write_json


def test_output_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "deep" / "out.txt"
    with atomic_output(target) as draft:
        draft.write_text("one")
        assert not target.exists()
    assert target.read_text() == "one"
    with pytest.raises(RuntimeError), atomic_output(target) as draft:
        draft.write_text("two")
        raise RuntimeError
    assert target.read_text() == "one"
    assert os.listdir(target.parent) == ["out.txt"]


def test_folders_are_replaced_by_folders_only(tmp_path):
    target = tmp_path / "out"
    for text in ("one", "two"):
        with atomic_output(target, folder=True) as draft:
            (draft / "a").write_text(text)
    assert (target / "a").read_text() == "two"
    with pytest.raises(InputError, match="is a folder"), atomic_output(target) as draft:
        draft.write_text("x")
    assert os.listdir(tmp_path) == ["out"]


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="No space left"), atomic_output(tmp_path / "x") as draft:
        draft.write_text("part")
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []


def test_a_file_in_the_way_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match="cannot be written"),
        atomic_output(tmp_path / "file" / "x"),
    ):
        pass


def test_json(tmp_path):
    write_json(tmp_path / "x.json", {"a": [1, 2.5]})
    assert read_json(tmp_path / "x.json") == {"a": [1, 2.5]}
    (tmp_path / "x.json").write_text('{"a": [1')
    with pytest.raises(InputError, match=r"x\.json: is not valid JSON"):
        read_json(tmp_path / "x.json")
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(InputError, match="no JSON object"):
        read_json(tmp_path / "x.json")


def test_existing_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        existing_file(tmp_path / "x")
    with pytest.raises(InputError, match="is a folder"):
        existing_file(tmp_path)
