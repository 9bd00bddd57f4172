import gzip
import lzma
import math
import tracemalloc

import numpy as np
import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from prsrank import InputError
from prsrank.data import letor
from prsrank.data.letor import read_letor


@pytest.fixture
def write(tmp_path):
    def to_file(text, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to_file


def random_text(rng, lists=40, features=12, share=0.7):
    lines = []
    for query in range(lists):
        for doc in range(rng.integers(1, 9)):
            ids = np.flatnonzero(rng.random(features) < share) + 1
            values = " ".join(f"{i}:{rng.normal():.{rng.integers(0, 18)}g}" for i in ids)
            lines.append(f"{rng.integers(0, 5)} qid:{query} {values} #docid = D-{query}-{doc}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("block", [200, 1000, 1 << 20])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_equals_scikit_learn_whatever_the_blocks_and_threads(write, monkeypatch, block, threads):
    monkeypatch.setattr(letor, "_BLOCK", block)
    path = write(random_text(np.random.default_rng(0)))
    data = read_letor(path, threads=threads)
    features, labels, queries = load_svmlight_file(str(path), query_id=True, zero_based=False)
    assert np.array_equal(data.features, features.toarray().astype(np.float32))
    assert np.array_equal(data.labels, labels)
    assert np.array_equal(np.repeat(data.query_ids, data.list_lengths), queries)


def test_all_that_the_format_allows(write):
    path = write(
        b"# a comment line\r\n"
        b"\r\n"
        b"2 qid:10 1:0.5 2:NULL 3:1e-3 #docid = GX-1 inc = 1 prob = 0.5\r\n"
        b"  0\tqid:10   3:-7.25\t1:nan # docid=GX-2\r\n"
        b"1 qid:9 cost:2.5 2:+1.5E2#no id here\n"
        b"0 qid:9"
    )
    data = read_letor(path)
    nan = math.nan
    expected = [[0.5, nan, np.float32(1e-3)], [nan, 0, -7.25], [0, 150, 0], [0, 0, 0]]
    assert np.array_equal(data.features, np.array(expected, np.float32), equal_nan=True)
    assert data.labels.tolist() == [2, 0, 1, 0]
    assert data.query_ids.tolist() == [10, 9]
    assert data.doc_ids.tolist() == ["GX-1", "GX-2", "0", "1"]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("data.txt.gz", gzip.compress),
        ("data.txt.xz", lzma.compress),
        ("data.txt.zst", lambda text: pyarrow.Codec("zstd").compress(text, asbytes=True)),
    ],
)
def test_packed_files_read_the_same_and_damage_is_noticed(write, monkeypatch, name, pack):
    monkeypatch.setattr(letor, "_BLOCK", 500)
    text = random_text(np.random.default_rng(1)).encode()
    plain, packed = read_letor(write(text)), read_letor(write(pack(text), name))
    assert np.array_equal(plain.features, packed.features)
    assert plain.doc_ids.tolist() == packed.doc_ids.tolist()
    two = read_letor(write(pack(text[:300]) + pack(text[300:]), name))
    assert np.array_equal(plain.features, two.features)
    for damaged in (pack(text)[:-20], pack(text)[: len(pack(text)) // 2], b"not packed"):
        with pytest.raises(InputError, match="cannot be unpacked"):
            read_letor(write(damaged, name))


@pytest.mark.parametrize(("name", "pack"), [("data.txt", bytes), ("data.txt.gz", gzip.compress)])
def test_a_line_without_end_is_refused_before_it_is_held(write, monkeypatch, name, pack):
    monkeypatch.setattr(letor, "_BLOCK", 1 << 16)
    monkeypatch.setattr(letor, "_MOST_LINE", 1 << 20)
    assert read_letor(write(pack(b"1 qid:1 1:1" + b" " * (1 << 19)), name)).docs == 1
    file = write(pack(b"1 qid:1 1:1" + b" " * (1 << 25)), name)
    tracemalloc.start()
    with pytest.raises(InputError, match=f"{name}: a line has more than 1 MiB"):
        read_letor(file, threads=1)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_long_ids_are_refused(write):
    long = "a" * 10_001
    with pytest.raises(InputError, match="10,001 characters, and 10,000 is the most"):
        read_letor(write(f"1 qid:{long} 1:1\n"))
    with pytest.raises(InputError, match=r"data\.txt: an id has 10,001 characters"):
        read_letor(write(f"1 qid:1 1:1 #docid = {long}\n", "data.txt"))


def test_one_long_id_leaves_the_others_their_room(write, monkeypatch):
    """With blocks of a few lines, of which one has the long id."""
    monkeypatch.setattr("prsrank.data.letor._BLOCK", 100_000)
    docs = [f"doc-{i}" for i in range(20_000)]
    docs[7_000], docs[9_000] = "é" * 4_000, ""
    queries = [str(i // 10) for i in range(20_000)]
    queries[:10] = ["q" * 9_000] * 10
    rows = zip(queries, docs, strict=True)
    file = write("".join(f"0 qid:{q} 1:1{d and f' #docid = {d}'}\n" for q, d in rows))
    tracemalloc.start()
    data = read_letor(file)
    # side by side they would take 320 MB
    assert tracemalloc.get_traced_memory()[1] < 30e6
    tracemalloc.stop()
    docs[9_000] = "0"  # its row in the list
    assert data.doc_ids.tolist() == docs
    assert data.query_ids.tolist() == queries[::10]


def test_values_of_many_digits_are_rounded_as_python_rounds(write):
    texts = ["0.10000000000000000000000000001", "3.00000011920928955078125000000000001"] * 80
    path = write("".join(f"1 qid:1 1:{t} 2:{float(t)!r}\n" for t in texts))
    expected = [[np.float32(float(t))] * 2 for t in texts]
    assert np.array_equal(read_letor(path).features, expected)


def test_odd_lines_are_read_one_by_one_to_the_same(monkeypatch):
    text = b"+1.5 qid:a 2:1e-400 1:-0.25 # x\n0 qid:c 1:NULL #docid = d\n"
    odd = text + b"1 qid:a:b cost:2 1:null 2:.5\n"
    by_arrays = letor.parse_lines(1, text)
    by_lines = letor.parse_lines(1, odd)
    expected = [[-0.25, 0], [np.nan, 0], [np.nan, 0.5]]
    assert np.array_equal(by_arrays.features, expected[:2], equal_nan=True)
    assert np.array_equal(by_lines.features, expected, equal_nan=True)
    assert by_lines.labels.tolist() == [*by_arrays.labels, 1] == [1.5, 0, 1]
    assert by_lines.queries == [*by_arrays.queries, "a:b"] == ["a", "c", "a:b"]
    assert by_lines.doc_ids.tolist() == [*by_arrays.doc_ids, ""] == ["", "d", ""]


def test_several_files_are_one_data_set(write):
    one, two = write("1 qid:1 2:5\n", "one.txt"), write("0 qid:2 1:1 4:2\n", "two.txt")
    data = read_letor([one, two])
    assert data.features.tolist() == [[0, 5, 0, 0], [1, 0, 0, 2]]
    assert read_letor(one, features=4).features.tolist() == [[0, 5, 0, 0]]


def test_scattered_queries_are_an_error_unless_regrouped(write, monkeypatch):
    text = "1 qid:a 1:1 #docid = x\n2 qid:b 1:2 #docid = y\n\n3 qid:a 1:3 #docid = z\n"
    path = write(text)
    for block in (10, 1 << 20):
        monkeypatch.setattr(letor, "_BLOCK", block)
        with pytest.raises(InputError, match=r"data\.txt:4:1: the lines of query a "):
            read_letor(path)
        data = read_letor(path, regroup=True)
        assert data.query_ids.tolist() == ["a", "b"]
        assert data.features[:, 0].tolist() == [1, 3, 2]
        assert data.labels.tolist() == [1, 3, 2]
        assert data.doc_ids.tolist() == ["x", "z", "y"]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ("7 -3", [7, -3]),
        ("07 8", ["07", "8"]),
        ("x1 2", ["x1", "2"]),
        ("99999999999999999999 1", ["99999999999999999999", "1"]),
        ("é 1", ["é", "1"]),
    ],
)
def test_query_ids_are_integers_where_nothing_is_lost(write, ids, expected):
    path = write("".join(f"0 qid:{i} 1:1\n" for i in ids.split()))
    assert read_letor(path).query_ids.tolist() == expected


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("x qid:1 1:1", 1, "a label"),
        ("nan qid:1 1:1", 1, "a label"),
        ("1e60 qid:1 1:1", 1, "a label"),
        ("1", 2, "'qid:' is expected"),
        ("1 1:0.5", 3, "'qid:' is expected"),
        ("1 qid: 1:0.5", 7, "query id is empty"),
        ("1 qid: 1", 7, "query id is empty"),
        ("1 qid:1 0:0.5", 9, "feature id from 1 up"),
        ("1 qid:1 a:0.5", 9, "feature id from 1 up"),
        ("1 qid:1 0x1F:0.5", 9, "feature id from 1 up"),
        ("1 qid:1 -1:0.5", 9, "feature id from 1 up"),
        ("1 qid:1 1 2:3", 9, "feature id from 1 up"),
        ("1 qid:1 1:", 11, "neither a number nor NULL"),
        ("1 qid:1 1:0.5x", 11, "neither a number nor NULL"),
        ("1 qid:1 1:0,5", 11, "neither a number nor NULL"),
        ("1 qid:1 1:NULLS", 11, "neither a number nor NULL"),
        ("1 qid:1 1:-nan", 11, "neither a number nor NULL"),
        ("1 qid:1 1:+-1", 11, "neither a number nor NULL"),
        ("1 qid:1 1:0.5\0", 11, "neither a number nor NULL"),
        ("1 qid:1 1:0.5\v", 11, "neither a number nor NULL"),
        ("1 qid:1 1:inf", 11, "neither a number nor NULL"),
        ("1 qid:1 1:1e39", 11, "too large for float32"),
        ("1 qid:1 1:" + "9" * 45, 11, "too large for float32"),
        ("1 qid:1 1:1 2:2 1:3", 17, "given twice"),
        ("1 qid:1 1000000:1", 9, "above the number of features"),
        ("1 qid:1 99999999999999999999:1", 9, "above the number of features"),
        ("1 qid:1 cost:x 1:1", 14, "cost is neither a number"),
    ],
)
def test_errors_name_file_line_and_column(write, monkeypatch, line, column, message):
    monkeypatch.setattr(letor, "_BLOCK", 30)
    path = write(f"0 qid:1 1:0.25 2:0.5\n# comment\n0 qid:1 2:3\n\n{line}\n1 qid:1 1:1\n")
    with pytest.raises(InputError) as caught:
        read_letor(path)
    assert str(caught.value).startswith(f"{path}:5:{column}: ")
    assert message in str(caught.value)


def test_other_errors(write, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_letor(tmp_path / "absent")
    with pytest.raises(InputError, match="is a folder"):
        read_letor(tmp_path)
    with pytest.raises(InputError, match="no data line"):
        read_letor(write(""))
    with pytest.raises(InputError, match="no data line"):
        read_letor(write("# only a comment\n"))
    with pytest.raises(InputError, match="not valid UTF-8"):
        read_letor(write(b"1 qid:\xff\xfe 1:1\n"))
    with pytest.raises(InputError, match="above the number of features"):
        read_letor(write("1 qid:1 5:1\n"), features=4)
    with pytest.raises(InputError, match="no file"):
        read_letor([])
    with pytest.raises(InputError, match="number of features must be"):
        read_letor(write("1 qid:1 1:1"), features=0)


values = st.one_of(
    st.floats(width=32, allow_infinity=False).map(
        lambda v: ("NULL" if math.isnan(v) else repr(v), np.float32(v))
    ),
    st.floats(-1e30, 1e30).map(lambda v: (f"{v:.6f}", np.float32(float(f"{v:.6f}")))),
)
rows = st.tuples(
    st.integers(0, 4),
    st.dictionaries(st.integers(1, 30), values, max_size=8),
    st.sampled_from(["", " ", "\t", " # note", "#docid = X inc = 1"]),
    st.sampled_from(["\n", "\r\n", "\n\n", "\n# between\n"]),
)


def render(lists):
    return "".join(
        f"{label} qid:{query} "
        + " ".join(f"{i}:{text}" for i, (text, _) in features.items())
        + tail
        + end
        for query, docs in enumerate(lists)
        for label, features, tail, end in docs
    )


same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@same_folder
@given(lists=st.lists(st.lists(rows, min_size=1, max_size=4), min_size=1, max_size=5))
def test_fuzz_valid_files_round_trip_exactly(write, lists):
    data = read_letor(write(render(lists).removesuffix("\n")), features=30)
    flat = [row for docs in lists for row in docs]
    expected = np.zeros((len(flat), 30), np.float32)
    for row, (_, features, _, _) in zip(expected, flat, strict=True):
        for i, (_, value) in features.items():
            row[i - 1] = value
    assert np.array_equal(data.features, expected, equal_nan=True)
    assert data.labels.tolist() == [row[0] for row in flat]
    assert data.list_lengths.tolist() == [len(docs) for docs in lists]


def slow_reader(text):
    """The format by Python's own string functions; None where a line is not of it."""
    out, seen, last = [], set(), None
    for line in text.split(b"\n"):
        words = line.split(b"#")[0].replace(b"\r", b" ").replace(b"\t", b" ").split(b" ")
        words = [word for word in words if word]
        if not words:
            continue
        label, query, *features = [*words, b""] if len(words) == 1 else words
        if not query.startswith(b"qid:") or len(query) == 4:
            return None
        if query in seen and query != last:
            return None
        seen.add(last := query)
        out.append((number(label, False), {}))
        costed = features and features[0].startswith(b"cost:")
        if costed and number(features.pop(0)[5:], True) is None:
            return None
        for word in features:
            name, colon, value = word.partition(b":")
            if not colon or not name.isdigit() or not 1 <= int(name) <= 100_000:
                return None
            if int(name) in out[-1][1]:
                return None
            out[-1][1][int(name)] = number(value, True)
    good = all(v is not None for label, f in out for v in (label, *f.values()))
    return out if out and good else None


def number(text, may_miss):
    if may_miss and text.lower() in (b"null", b"nan"):
        return math.nan
    if not text or set(text) - set(b"0123456789+-.eE"):
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    # as a Python float: NumPy would round the value to float32 first
    return value if abs(value) <= float(np.finfo(np.float32).max) else None


def test_what_is_above_the_largest_float32_is_refused(write):
    largest = "3.4028234663852886e+38"
    assert read_letor(write(f"1 qid:1 1:{largest}\n")).features[0, 0] == np.finfo(np.float32).max
    with pytest.raises(InputError, match=r":1:11: the feature value is infinite or too large"):
        read_letor(write("1 qid:1 1:3.402823466852886e+38\n"))


@settings(same_folder, max_examples=400)
@given(
    lists=st.lists(st.lists(rows, min_size=1, max_size=3), min_size=1, max_size=3),
    cuts=st.lists(
        st.tuples(
            st.floats(0, 1),
            st.integers(0, 3),
            st.one_of(
                st.binary(max_size=3), st.sampled_from([b" ", b"\n", b":", b"qid:", b"#", b"1:2"])
            ),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_fuzz_corruptions_give_the_error_or_the_right_values(write, lists, cuts):
    text = render(lists).encode()
    for place, removed, added in cuts:
        at = int(place * len(text))
        text = text[:at] + added + text[at + removed :]
    expected = slow_reader(text)
    try:
        data = read_letor(write(text))
    except InputError as error:
        assert expected is None or "UTF-8" in str(error)  # noqa: PT017
        return
    assert expected is not None
    assert data.labels.tolist() == [np.float32(label) for label, _ in expected]
    for row, (_, features) in zip(data.features, expected, strict=True):
        wanted = np.zeros_like(row)
        for i, value in features.items():
            wanted[i - 1] = value
        assert np.array_equal(row, wanted, equal_nan=True)
