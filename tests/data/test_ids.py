import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsrank import InputError
from prsrank.data.ids import (
    SIDE_BY_SIDE,
    id_array,
    indices_of,
    joined_ids,
    letters_of,
    packed_ids,
    same_kind,
    texts_of,
    unpacked_ids,
)

LONG = "https://example.org/" + "ü" * 9_000
texts = st.text(st.characters(exclude_characters="\0"), max_size=3)
many = st.lists(texts | texts.map(lambda text: text * 40), min_size=1, max_size=20)


@pytest.mark.parametrize("make", [list, lambda ids: np.array(ids, object)])
def test_one_long_id_leaves_the_others_their_room(make):
    ids = make([f"doc {i:016d}" for i in range(100_000)] + [LONG])
    tracemalloc.start()
    found = id_array(ids)
    room = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.tolist() == list(ids)
    # side by side they would take 3.6 GB; their letters are 2 MB
    assert room < 10e6


def test_the_longest_id_decides_the_kind():
    for letters, kind in ((SIDE_BY_SIDE, "U"), (SIDE_BY_SIDE + 1, "O")):
        ids = ["a", "b" * letters]
        for given_ids in (ids, np.array(ids), np.array(ids, object), id_array([*ids, LONG])[:2]):
            found = id_array(given_ids)
            assert found.dtype.kind == kind
            assert found.tolist() == ids
            assert not found.flags.writeable
    assert id_array(["", ""]).tolist() == ["", ""]
    assert id_array(np.array(["a", 5], object)).tolist() == ["a", "5"]


def test_ids_that_are_too_long_are_refused():
    long = "q" * 10_000
    assert id_array([long, "a"]).tolist() == [long, "a"]
    for ids in (["a", long + "q"], np.array([long + "q"])):
        with pytest.raises(InputError, match="10,001 characters, and 10,000 is the most"):
            id_array(ids)


def test_what_is_no_text_is_refused():
    with pytest.raises(InputError, match="integers or strings, not float64"):
        id_array([0.5])


@given(many, many)
def test_places_among_known_ids_are_those_of_a_list(wanted, known):
    known = list(dict.fromkeys(known))
    expected = [known.index(text) if text in known else -1 for text in wanted]
    assert indices_of(id_array(wanted), id_array(known)).tolist() == expected
    assert indices_of(id_array(wanted), id_array(known)[:0]).tolist() == [-1] * len(wanted)


@given(many, many)
def test_ids_of_any_kind_are_joined_and_compared(one, other):
    assert joined_ids([id_array(one), id_array(other)]).tolist() == one + other
    assert joined_ids([np.array([7, -1]), id_array(one)]).tolist() == ["7", "-1", *one]
    assert [ids.tolist() for ids in same_kind(np.array([7]), id_array(one))] == [["7"], one]
    order = np.argsort(joined_ids([id_array(one), id_array([LONG])]), kind="stable")
    assert [[*one, LONG][i] for i in order] == sorted([*one, LONG])


@given(many | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_packed_ids_come_back(ids):
    before = id_array(ids)
    arrays = packed_ids("ids", before)
    assert all(array.dtype.kind in "iu" for array in arrays.values())
    after = unpacked_ids("ids", arrays)
    assert after.dtype.kind == before.dtype.kind
    assert after.tolist() == ids
    assert unpacked_ids("others", arrays) is None


@pytest.mark.parametrize(
    "lengths",
    [
        [3, 97],
        [3, -1, 99],
        [1.0, 100.0],
        [[1], [100]],
        [2**62, 2**62, 2**62, 2**62, 101],
        [],
    ],
)
def test_packed_ids_that_do_not_fit_together_are_refused(lengths):
    arrays = packed_ids("ids", id_array(["a", "b" * 100]))
    arrays["ids_lengths"] = np.array(lengths)
    with pytest.raises(ValueError, match=r"do not fit|is the most"):
        unpacked_ids("ids", arrays)


@given(many)
def test_letters_are_code_points(ids):
    letters, offsets = letters_of(id_array(ids))
    for i, text in enumerate(ids):
        some = letters[offsets[i] : offsets[i + 1]]
        assert some[some > 0].tolist() == list(map(ord, text))


def test_integers_are_written_in_digits():
    assert texts_of(np.array([-7, 2**62])).tolist() == ["-7", str(2**62)]
    assert texts_of(id_array([LONG, "a"])).tolist() == [LONG, "a"]
