"""Parquet files whose statistics contradict their rows, which DuckDB's checks do not see."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prsrank.cli import run
from prsrank.errors import InputError
from prsrank.logs.array_checks import check_fetched
from prsrank.logs.click_log_files import read_compact, write_compact
from prsrank.logs.events import from_frame
from prsrank.propensity.cells import count_cells


def change_value(file: Path, column: np.ndarray, row: int, value: float) -> None:
    """Change one value of an uncompressed column; the statistics in the footer stay."""
    content = bytearray(file.read_bytes())
    start = content.index(column.tobytes()) + row * column.itemsize
    content[start : start + column.itemsize] = column.dtype.type(value).tobytes()
    file.write_bytes(bytes(content))


def write_plain(file: Path, columns: dict) -> None:
    pq.write_table(pa.table(columns), file, compression="none", use_dictionary=False)


@pytest.fixture
def events():
    rng = np.random.default_rng(0)
    return {
        "query_id": np.repeat(np.arange(400) % 20, 5),
        "session_id": np.repeat(np.arange(400), 5),
        "doc_id": np.concatenate([rng.permutation(5) for _ in range(400)]),
        "position": np.tile(np.arange(1, 6, dtype=np.int32), 400),
        "click": rng.random(2000) < 0.3,
        "propensity": np.tile(1 / np.arange(1, 6), 400),
    }


@pytest.fixture(params=[900_000_000, -900_000, 0])
def lying_log(request, events, tmp_path):
    write_plain(tmp_path / "log.parquet", events)
    change_value(tmp_path / "log.parquet", events["position"], 7, request.param)
    return str(tmp_path / "log.parquet")


@pytest.mark.parametrize("method", ["harvest", "harvest-chain", "regression-em", "likelihood"])
def test_one_changed_position_is_refused_before_a_kernel_sees_it(method, lying_log, capsys):
    assert run(["propensity", lying_log, "--method", method]) == 2
    assert "the file's own statistics deny" in capsys.readouterr().err


def test_pairs_of_a_changed_log(lying_log, tmp_path, capsys):
    given = [
        "--data",
        "synthetic:mq2007:30",
        "--propensity",
        "power:1",
        "--out",
        str(tmp_path / "m"),
    ]
    assert run(["train", lying_log, *given]) == 2
    assert "the file's own statistics deny" in capsys.readouterr().err


@pytest.mark.parametrize("value", [np.nan, -1.0, np.inf])
def test_a_changed_propensity(value, events, tmp_path, capsys):
    write_plain(tmp_path / "log.parquet", events)
    change_value(tmp_path / "log.parquet", events["propensity"], 3, value)
    assert run(["propensity", str(tmp_path / "log.parquet"), "--method", "harvest"]) == 2
    assert "propensity" in capsys.readouterr().err


def test_what_was_fetched_is_checked_whatever_the_engine_said(events):
    whole = {name: np.asarray(values) for name, values in events.items()}
    check_fetched(whole)
    masked = np.ma.masked_array(whole["position"], np.arange(2000) == 5)
    with pytest.raises(InputError, match=r"position is missing \(null\) in row 6"):
        check_fetched(whole | {"position": masked})
    with pytest.raises(InputError, match="weight nan in row 1"):
        check_fetched(whole | {"click": np.ones(2000, bool), "weight": np.full(2000, np.nan)})
    # of a doc that was not clicked the weight is of no matter
    check_fetched(whole | {"click": np.zeros(2000, bool), "weight": np.zeros(2000)})


@pytest.mark.parametrize(
    ("table", "column", "row", "value", "message"),
    [
        ("rankings", "ranking", 7, 2**31 - 1, "not numbered 0, 1, 2"),
        ("rankings", "ranking", 0, 1, "not numbered 0, 1, 2"),
        ("rankings", "position", 4, 2**31 - 1, "above 1,000,000"),
        ("rankings", "position", 0, -5, "positions start at 1"),
        ("sessions", "ranking", 3, 2**31 - 1, "names ranking 2147483647"),
        ("sessions", "ranking", 3, -1, "names ranking -1"),
        ("sessions", "clicks", 3, 2**31 - 1, "clicks has"),
        ("sessions", "clicks", 3, -1, "negative number of clicks|clicks has"),
        ("clicks", "index", 5, 2**31 - 1, "clicks a doc not shown"),
        ("clicks", "index", 5, -1, "clicks a doc not shown"),
    ],
)
def test_compact_logs_are_checked_by_their_values(
    table, column, row, value, message, events, tmp_path
):
    write_compact(from_frame(events), tmp_path / "log")
    for name in ("rankings", "sessions", "clicks"):
        file = tmp_path / "log" / f"{name}.parquet"
        columns = {n: c.to_numpy() for n, c in zip(*_columns(file), strict=True)}
        write_plain(file, columns)
        if name == table:
            change_value(file, columns[column], row, value)
    with pytest.raises(InputError, match=message):
        read_compact(tmp_path / "log")


def _columns(file):
    table = pq.read_table(file)
    return table.column_names, table.columns


def test_cells_hold_positions_within_their_depth(events):
    cells = count_cells(from_frame(events))
    for positions in (cells.positions - 1, cells.positions + 1):
        with pytest.raises(InputError, match="cells at positions"):
            replace(cells, positions=positions)
