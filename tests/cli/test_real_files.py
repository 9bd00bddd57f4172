"""Files as people have them: words for nothing, decimal commas, repeated docs, pipes, exports."""

import gzip
import io
import json
import os
import re
import sys
import threading
from types import SimpleNamespace

import duckdb
import numpy as np
import pytest

from prsrank.cli import run
from prsrank.cli.inputs import as_file
from prsrank.errors import InputError
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import read_log

COLUMNS = ("query_id", "session_id", "doc_id", "position", "click", "x", "y")


def rows(lists=40, sessions=12, docs=5, seed=3):
    """Events with two features; the first of them is sometimes missing."""
    rng = np.random.default_rng(seed)
    for query in range(lists):
        features = rng.normal(size=(docs, 2)).round(3)
        for session in range(sessions):
            order = rng.permutation(docs)
            for index, doc in enumerate(order):
                x, y = features[doc]
                click = rng.random() < (0.6 if y > 0 else 0.1) / (index + 1)
                missing = (query + doc) % 7 == 0
                yield (
                    f"q{query}",
                    session,
                    f"d{doc}",
                    index + 1,
                    int(click),
                    None if missing else x,
                    y,
                )


def write(file, table, *, null="", decimal=".", separator=","):
    """Write a CSV file as other programs do."""

    def cell(value):
        if value is None:
            return null
        return str(value).replace(".", decimal) if isinstance(value, float) else str(value)

    lines = [separator.join(COLUMNS), *(separator.join(map(cell, row)) for row in table)]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture
def clean(tmp_path):
    return write(tmp_path / "clean.csv", rows())


FEATURES = LogMapping(features=("x", "y"))


def same(one, two):
    assert one[0].equals(two[0])
    assert one[1].feature_names == two[1].feature_names
    assert np.array_equal(one[1].features, two[1].features, equal_nan=True)


@pytest.mark.parametrize("null", ["NULL", "N/A", "NaN", "-", "\\N", " "])
def test_words_for_nothing_are_missing_values(tmp_path, clean, null):
    file = write(tmp_path / "words.csv", rows(), null=null)
    said = LogMapping(features=("x", "y"), nulls=(null.strip(),))
    same(read_log(file, mapping=said), read_log(clean, mapping=FEATURES))
    if null != "NaN":  # which is a number that is none
        with pytest.warns(match="is read as a missing value"):
            same(read_log(file, mapping=FEATURES), read_log(clean, mapping=FEATURES))
        other = LogMapping(features=("x", "y"), nulls=("gone",))
        if null.strip():
            with pytest.raises(InputError, match="feature 'x' must hold numbers, not text such as"):
                read_log(file, mapping=other)


def test_words_for_nothing_on_the_command_line(prsrank, tmp_path):
    file = write(tmp_path / "words.csv", rows(), null="NULL")
    toml = tmp_path / "log.toml"
    toml.write_text('[features]\ncolumns = ["x", "y"]\n')
    code, out, err = prsrank("audit", file, "--mapping", toml, "--json")
    assert code == 0
    assert "'NULL' is read as a missing value" in err
    assert "nulls-read" in {one["code"] for one in json.loads(out)["findings"]}
    # what is said needs no notice
    split = ("split", file, "--mapping", toml, "--out", tmp_path / "parts")
    toml.write_text('nulls = ["NULL"]\n[features]\ncolumns = ["x", "y"]\n')
    assert prsrank(*split)[::2] == (0, "")
    toml.write_text('nulls = ["gone"]\n[features]\ncolumns = ["x", "y"]\n')
    code, _, err = prsrank(*split)
    assert (code, "feature 'x' must hold numbers, not text such as 'NULL'" in err) == (2, True)


def test_a_number_may_stand_for_nothing(tmp_path, clean):
    file = write(tmp_path / "words.csv", rows(), null="-999.0")
    mapping = LogMapping(features=("x", "y"), nulls=("-999",))
    same(read_log(file, mapping=mapping), read_log(clean, mapping=FEATURES))


def test_decimal_commas(prsrank, tmp_path, clean):
    file = write(tmp_path / "commas.csv", rows(), decimal=",", separator=";", null="NULL")
    with pytest.warns(match="commas are read as decimal points in 'x', 'y'"):
        same(read_log(file, mapping=FEATURES), read_log(clean, mapping=FEATURES))
    toml = tmp_path / "log.toml"
    toml.write_text('decimal = ","\nnulls = "NULL"\n[features]\ncolumns = ["x", "y"]\n')
    split = ("split", file, "--mapping", toml, "--out", tmp_path / "parts")
    assert prsrank(*split)[::2] == (0, "")
    toml.write_text('decimal = "."\nnulls = "NULL"\n[features]\ncolumns = ["x", "y"]\n')
    code, _, err = prsrank(*split)
    assert code == 2
    assert "feature 'x' must hold numbers, not text such as" in err


def test_a_comma_that_may_stand_after_thousands_is_not_guessed(tmp_path):
    table = [(*row[:5], "1,234", "2,000") for row in rows()]
    file = write(tmp_path / "thousands.csv", table, separator=";")
    with pytest.raises(InputError, match="must hold numbers, not text such as '1,234'"):
        read_log(file, mapping=FEATURES)
    said = LogMapping(features=("x", "y"), decimal=",")
    assert read_log(file, mapping=said)[1].features[0].tolist() == [np.float32(1.234), 2.0]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_ids_are_text_unless_they_are_numbers_throughout(tmp_path, kind):
    many, file = 50_000, tmp_path / f"late.{kind}"
    ids = [i if i < 40_000 else f"a{i}" for i in range(many)]
    with file.open("w") as out:
        if kind == "csv":
            print("query_id,session_id,doc_id,position,click", file=out)
        for i, one in enumerate(ids):
            row = {"query_id": i // 2, "session_id": 1, "doc_id": one, "position": 1 + i % 2}
            row["click"] = i % 2
            print(
                json.dumps(row) if kind == "jsonl" else ",".join(map(str, row.values())), file=out
            )
    log, _ = read_log(file)
    assert sorted(log.doc_ids.tolist()) == sorted(map(str, ids))
    assert log.query_ids.dtype.kind == "i"


def test_an_id_with_leading_zeros_is_not_a_number(tmp_path):
    table = [("1", row[1], f"00{row[2][1:]}", *row[3:]) for row in rows(lists=1)]
    log, _ = read_log(write(tmp_path / "zeros.csv", table))
    assert log.doc_ids.tolist() == ["000", "001", "002", "003", "004"]
    assert log.query_ids.tolist() == [1]


def formats(clean, folder):
    """Write the same log as CSV, JSON lines and Parquet."""
    table = duckdb.read_csv(str(clean))
    table.write_parquet(str(folder / "log.parquet"))
    for name, options in (("log.csv", "csv"), ("log.jsonl", "json")):
        table.query("t", f"COPY t TO '{folder / name}' (FORMAT {options})")
    return [folder / f"log.{kind}" for kind in ("parquet", "csv", "jsonl")]


def test_csv_jsonl_and_parquet_give_the_same_bit_for_bit(tmp_path, clean):
    (tmp_path / "log.toml").write_text('[features]\ncolumns = ["x", "y"]\n')
    outputs = []
    for file in formats(clean, tmp_path):
        out = tmp_path / f"fitted-{file.suffix[1:]}"
        fit = ["fit", file, "--mapping", tmp_path / "log.toml", "--propensity", "power:1"]
        fit += ["--trials", "1", "--trees", "5", "--out", out]
        assert run([str(word) for word in fit]) == 0
        outputs.append(json.loads((out / "manifest.json").read_text())["outputs"])
    assert {"model/model.txt", "propensity.json", "evaluation.json"} <= set(outputs[0])
    assert outputs[0] == outputs[1] == outputs[2]


def duplicated(share=0.25):
    """Show the first doc of some sessions again at the end."""
    for row in rows():
        yield row
        if row[3] == 1 and row[1] < 12 * share:
            yield (*row[:3], 6, 1, *row[5:])


def test_docs_shown_again_are_left_out_and_counted(prsrank, tmp_path, clean):
    file = write(tmp_path / "twice.csv", duplicated())
    code, out, _ = prsrank("audit", file)
    assert code == 1
    assert "duplicate-doc" in out
    assert "'duplicates = \"first\"' in the mapping does it" in out
    toml = tmp_path / "log.toml"
    toml.write_text('duplicates = "first"\n')
    code, out, err = prsrank("audit", file, "--mapping", toml, "--json")
    assert code == 0
    left_out = {one["code"]: one["count"] for one in json.loads(out)["findings"]}
    assert left_out["duplicates-left-out"] == 120
    assert "120 of 2,520 rows show a doc again in its session: they are left out" in err
    first = LogMapping(duplicates="first")
    with pytest.warns(match="120 of 2,520 rows"):
        log, _ = read_log(file, mapping=first)
    expected = read_log(clean)[0]
    assert log.sessions == expected.sessions
    assert np.array_equal(log.position_counts(), expected.position_counts())
    code, _, err = prsrank("split", file, "--out", tmp_path / "parts")
    assert (code, "duplicates = 'first' keeps the first of each" in err) == (2, True)
    assert prsrank("split", file, "--mapping", toml, "--out", tmp_path / "parts")[0] == 0


def test_of_rows_at_one_position_the_clicked_one_counts(tmp_path):
    table = [(*row[:4], 0, *row[5:]) for row in rows()] + [r for r in rows() if r[4]]
    file = write(tmp_path / "both.csv", table)
    with pytest.warns(match="show a doc again"):
        log, _ = read_log(file, mapping=LogMapping(duplicates="first"))
    assert len(log.clicks) == sum(row[4] for row in rows())


def test_a_log_with_gaps_duplicates_and_thin_positions_goes_all_the_way(prsrank, tmp_path):
    shown = [row for row in duplicated() if row[3] != 3]
    # two of 480 sessions go on to positions 8 and 9
    shown += [(f"q{q}", 5, f"d{k}", k, int(k == 9), 0.5, 0.5) for q in (1, 2) for k in (8, 9)]
    file = write(tmp_path / "real.csv", shown, null="NULL")
    (tmp_path / "log.toml").write_text('duplicates = "first"\n[features]\ncolumns = ["x", "y"]\n')
    given = (file, "--mapping", tmp_path / "log.toml")
    assert prsrank("audit", *given)[0] == 0
    curve = tmp_path / "p.json"
    estimate = ("propensity", *given, "--method", "harvest", "--shape", "monotone", "--out", curve)
    assert prsrank(*estimate)[0] == 0
    fit = ("fit", *given, "--ranker", "linear", "--trials", 1, "--propensity", "harvest")
    code, out, err = prsrank(*fit, "--out", tmp_path / "fitted")
    assert code == 0, err
    assert "taken as the position above" in out


@pytest.mark.parametrize(
    ("kind", "name"), [("parquet", "-"), ("csv", "/dev/stdin"), ("jsonl", "-"), ("gz", "-")]
)
def test_standard_input(prsrank, tmp_path, clean, monkeypatch, kind, name):
    files = {one.suffix[1:]: one.read_bytes() for one in formats(clean, tmp_path)}
    files["gz"] = gzip.compress(files["jsonl"])
    stdin = SimpleNamespace(buffer=io.BytesIO(files[kind]))
    monkeypatch.setattr(sys, "stdin", stdin)
    code, out, _ = prsrank("split", name, "--out", tmp_path / "parts")
    assert code == 0
    assert out == prsrank("split", clean, "--out", tmp_path / "parts")[1]
    code, _, err = prsrank("split", name, "--out", tmp_path / "parts")
    assert (code, err) == (2, "prsrank: error: standard input: nothing came\n")


def test_a_pipe_with_a_name(tmp_path, clean):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=lambda: pipe.write_bytes(clean.read_bytes()))
    thread.start()
    assert read_log(as_file(str(pipe)))[0].equals(read_log(clean)[0])
    thread.join()


def test_documents_wrapped_in_source(prsrank, tmp_path):
    plain, wrapped = tmp_path / "plain", tmp_path / "wrapped"
    queries = [
        {"query_id": f"r{i}", "user_query": f"q{i % 5}", "query_response_hit_ids": ["a", "b", "c"]}
        for i in range(40)
    ]
    events = [
        {
            "query_id": f"r{i}",
            "action_name": "click",
            "timestamp": "2026-01-01T00:00:00Z",
            "event_attributes": {"object": {"object_id": "abc"[i % 3]}},
        }
        for i in range(40)
    ]
    for folder in (plain, wrapped):
        folder.mkdir()
        for name, documents in (("ubi_queries", queries), ("ubi_events", events)):
            shown = (
                documents if folder == plain else [{"_id": "1", "_source": d} for d in documents]
            )
            text = "\n".join(json.dumps(document) for document in shown)
            (folder / f"{name}.jsonl").write_text(text)
    assert len(read_log(wrapped)[0].clicks) == 40
    assert read_log(wrapped)[0].equals(read_log(plain)[0])
    plan = ("plan", "experiment", wrapped, "--position", 2, "--propensity", "power:1")
    assert prsrank(*plan)[::2] == (0, "")


def test_sensitivity_of_a_ubi_folder_and_a_table(prsrank, tmp_path):
    folder = tmp_path / "ubi"
    folder.mkdir()
    texts = [f"text {i % 9}" for i in range(90)]
    queries = [
        {"query_id": f"r{i}", "user_query": text, "query_response_hit_ids": ["a", "b", "c"]}
        for i, text in enumerate(texts)
    ]
    events = [
        {
            **{"query_id": f"r{i}", "action_name": "click"},
            "event_attributes": {"object": {"object_id": "aab"[i % 3]}},
        }
        for i in range(90)
    ]
    for name, documents in (("ubi_queries", queries), ("ubi_events", events)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, documents)))
    table = tmp_path / "table.csv"
    lines = [f"{t},{d},{n},{len(t)}" for t in sorted(set(texts)) for n, d in enumerate("abc")]
    table.write_text("\n".join(["query_id,doc_id,x,y", *lines]))
    study = ("sensitivity", folder, "--features", table, "--propensity")
    quick = ("--try", "eta=0.5", "--try", "noise=0.1", "--try", "trust=0.2", "--try", "gamma=2")
    code, out, err = prsrank(*study, "power:1", *quick, "--out", tmp_path / "study")
    assert (code, err) == (0, "")
    assert "eta 0.5" in out


def test_tables_show_no_infinity_and_no_minus_zero(prsrank, tmp_path):
    """One query to judge by gives no interval, and two equal rankers no difference."""
    log = write(tmp_path / "log.csv", rows())
    held_out = write(tmp_path / "held_out.csv", rows(lists=1))
    given = ("--mapping", tmp_path / "log.toml")
    (tmp_path / "log.toml").write_text('[features]\ncolumns = ["y"]\n')
    train = ("train", log, *given, "--propensity", "power:1", "--ranker", "linear", "--out")
    for name in ("one", "two"):
        assert prsrank(*train, tmp_path / name)[0] == 0
    judge = ("evaluate", tmp_path / "one", "--log", held_out, *given, "--propensity", "power:1")
    code, out, _ = prsrank(*judge, "--against", tmp_path / "two")
    assert code == 0
    assert "no interval" in out
    assert "one - two: +0.0000" in out
    assert not re.search(r"\binf\b|-0\.0+\b(?!\d)", out)


def test_a_table_of_features_has_words_and_commas_too(tmp_path, clean):
    table = tmp_path / "table.csv"
    docs = {(row[0], row[2]): row[5:] for row in rows()}
    lines = [
        f"{q};{d};{'N/A' if x is None else str(x).replace('.', ',')};{str(y).replace('.', ',')}"
        for (q, d), (x, y) in docs.items()
    ]
    table.write_text("\n".join(["query_id;doc_id;x;y", *lines]))
    with (
        pytest.warns(match="'N/A' is read as a missing value"),
        pytest.warns(match="commas are read as decimal points"),
    ):
        found = read_log(clean, features=table)
    same(found, read_log(clean, mapping=FEATURES))


@pytest.mark.parametrize(
    ("columns", "hint"),
    [
        ("query_id,doc_id,position,click", "'session_id'; it has query_id, doc_id"),
        ("query_id,sid,doc_id,position,click", "'session_id'; did you mean 'sid'?"),
        ("query_id,session_id,prop_id,position,click", "'doc_id'; did you mean 'prop_id'?"),
        ("query_id,session_id,doc_id,positon,click", "'position'; did you mean 'positon'?"),
        ("srch_id,session_id,doc_id,position,click", "'query_id'; did you mean 'srch_id'?"),
    ],
)
def test_hints_name_a_plausible_column_or_none(prsrank, tmp_path, columns, hint):
    file = tmp_path / "log.csv"
    file.write_text(f"{columns}\n{','.join('1' for _ in columns.split(','))}\n")
    code, _, err = prsrank("split", file, "--out", tmp_path / "parts")
    assert code == 2
    assert f"has no column {hint}" in err


def test_counts_of_clicks_are_clicks(prsrank, tmp_path):
    file = write(tmp_path / "counts.csv", [(*r[:4], 3 * r[4], *r[5:]) for r in rows()])
    found = {one["code"] for one in json.loads(prsrank("audit", file, "--json")[1])["findings"]}
    assert "click-not-binary" in found
    assert "no-clicks" not in found
    toml = tmp_path / "log.toml"
    toml.write_text("[actions]\nclick = 1\n")
    assert prsrank("audit", file, "--mapping", toml)[0] == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("regression_em", "'regression_em' is a method, not a curve"),
        ("regresion-em", "no such file; did you mean the method 'regression-em'?"),
        ("gone.json", "gone.json: no such file\n"),
    ],
)
def test_a_method_is_not_a_file(prsrank, tmp_path, clean, given, said):
    code, _, err = prsrank("plan", "experiment", clean, "--position", 2, "--propensity", given)
    assert code == 2
    assert said in err


def test_fit_knows_a_method_by_either_spelling(prsrank, tmp_path, clean):
    (tmp_path / "log.toml").write_text('[features]\ncolumns = ["x", "y"]\n')
    fit = ("fit", clean, "--mapping", tmp_path / "log.toml", "--ranker", "linear", "--trials", 1)
    code, out, err = prsrank(*fit, "--propensity", "regression_em", "--out", tmp_path / "fitted")
    assert code == 0, err
    assert "propensities: regression-em" in out


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "LOG", "--propensity", "power:1", "--out", "BAD"),
        ("audit", "LOG", "--html", "BAD"),
        ("propensity", "LOG", "--method", "known", "--plot", "BAD"),
        ("rank", "LOG", "--out", "BAD"),
        ("simulate", "synthetic:mq2007:60", "--clicks", "10", "--out", "BAD"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(prsrank, tmp_path, command):
    # the log is not there: nobody has looked for it yet
    (tmp_path / "file").touch()
    paths = {"LOG": tmp_path / "nowhere.csv", "BAD": tmp_path / "file" / "deep" / "out.html"}
    code, _, err = prsrank(*(paths.get(word, word) for word in command))
    assert (code, "out.html: cannot be written: Not a directory" in err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
