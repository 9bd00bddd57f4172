"""Broken logs: one clear line and exit code 2, or a named finding; files stay as they are."""

import errno
import gzip
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from prsrank.files import drafts

HEADER = "query_id,session_id,doc_id,position,click"
GOOD = ["1,1,a,1,1", "1,1,b,2,0", "1,2,a,1,0", "1,2,b,2,1"]
Build = Callable[[Path], Path]


class Broken(NamedTuple):
    """A broken log: how to make it, and the code of the finding or words of the error."""

    name: str
    build: Build
    finding: str = ""
    error: str = ""
    options: tuple[str, ...] = ()


def text(name: str, content: str | bytes) -> Build:
    def build(folder: Path) -> Path:
        file = folder / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return build


def rows(*lines: str, header: str = HEADER, name: str = "log.csv") -> Build:
    return text(name, "\n".join([header, *lines, ""]))


def more(*lines: str) -> Build:
    return rows(*GOOD, *lines)


def parquet(sql: str) -> Build:
    def build(folder: Path) -> Path:
        file = folder / "log.parquet"
        duckdb.sql(f"COPY ({sql}) TO '{file}' (FORMAT parquet)")
        return file

    return build


def values(**columns: str) -> Build:
    """Return a Parquet log of 3 rows, with SQL in place of some columns."""
    known = {
        "query_id": "1",
        "session_id": "1",
        "doc_id": "i",
        "position": "i + 1",
        "click": "i % 2",
    }
    wanted = ", ".join(f"{sql} AS {name}" for name, sql in (known | columns).items())
    return parquet(f"SELECT {wanted} FROM range(3) r(i)")  # noqa: S608


def cut(share: float) -> Build:
    def build(folder: Path) -> Path:
        file = values()(folder)
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * share)])
        return file

    return build


def damaged(folder: Path) -> Path:
    """A Parquet file whose ends are whole and whose middle is not."""
    file = values()(folder)
    content = bytearray(file.read_bytes())
    content[4 : len(content) - 8] = b"\xff" * (len(content) - 12)
    file.write_bytes(bytes(content))
    return file


def folder_of(*builds: Build) -> Build:
    def build(folder: Path) -> Path:
        log = folder / "log"
        for number, part in enumerate(builds):
            inner = log / f"part{number}"
            inner.mkdir(parents=True)
            part(inner)
        log.mkdir(exist_ok=True)
        return log

    return build


def with_table(log: Build, table: str) -> Build:
    def build(folder: Path) -> Path:
        (folder / "features.csv").write_text(table)
        return log(folder)

    return build


def missing_file(folder: Path) -> Path:
    return folder / "nothing.parquet"


JSON_ROW = '{"query_id":1,"session_id":1,"doc_id":1,"position":1,"click":1}\n'
TABLE = ("--features", "{folder}/features.csv")

LOGS = [
    # files that cannot be read
    Broken("missing", missing_file, error="no such file"),
    Broken("empty file", text("log.csv", ""), error="empty"),
    Broken("zero-byte Parquet", text("log.parquet", ""), error="empty"),
    Broken("Parquet cut in half", cut(0.5), error="cut short"),
    Broken("Parquet without its last bytes", cut(0.98), error="cut short"),
    Broken("Parquet damaged inside", damaged, error="cannot be read"),
    Broken("CSV named Parquet", rows(*GOOD, name="log.parquet"), error="no Parquet file"),
    Broken("text file", text("log.txt", "hello"), error="not a log"),
    Broken("bytes named CSV", text("log.csv", bytes(range(256)) * 20), error="log.csv"),
    Broken("CSV of ragged rows", more("1,3,a,1", "1,3,b,2,0,9,9"), error="log.csv"),
    Broken(
        "bytes that are no UTF-8",
        text("log.csv", "\n".join([HEADER, *GOOD]).encode() + b"\n1,3,\xff\xfe,1,0\n"),
        error="log.csv",
    ),
    Broken(
        "JSON lines with a broken line",
        text("log.jsonl", JSON_ROW + '{"query_id":\n'),
        error="log.jsonl",
    ),
    Broken("JSON that is no object", text("log.jsonl", "[1, 2]\n[3]\n"), error="log.jsonl"),
    Broken(
        "gzip cut short",
        text("log.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000)[:30]),
        error="log.csv.gz",
    ),
    Broken("no gzip", text("log.csv.gz", "a,b\n1,2\n"), error="log.csv.gz"),
    Broken("empty folder", folder_of(), error="holds no"),
    Broken("folder of two kinds", folder_of(values(), rows(*GOOD)), error="one kind"),
    Broken(
        "folder of two schemas",
        folder_of(values(), parquet("SELECT 1 AS query_id, 2 AS other")),
        error="no column",
    ),
    Broken("folder with a cut file", folder_of(values(), cut(0.5)), error="cut short"),
    Broken(
        "folder of two types",
        folder_of(values(), values(position="'first'")),
        finding="position-type",
    ),
    # columns
    Broken("header only", rows(), finding="empty-log"),
    Broken(
        "Parquet without rows",
        parquet(
            "SELECT 1 AS query_id, 1 AS session_id, 1 AS doc_id, 1 AS position, 1 AS click LIMIT 0"
        ),
        finding="empty-log",
    ),
    Broken("no header", rows(*GOOD[1:], header=GOOD[0]), error="no column 'query_id'"),
    Broken(
        "no position",
        rows("1,1,a,1", header="query_id,session_id,doc_id,click"),
        error="no column 'position'",
    ),
    Broken(
        "other names",
        rows("1,1,a,1,0", header="query,session,doc,rank,clicked"),
        error="no column 'query_id'",
    ),
    Broken("a column twice", rows("1,1,a,1,0,5", header=HEADER + ",click"), finding="no-clicks"),
    Broken(
        "mapped to nothing", more(), error="no column 'srch'", options=("--column", "query_id=srch")
    ),
    Broken("mapped in no sense", more(), error="MEANING=COLUMN", options=("--column", "query_id")),
    # positions
    Broken("positions from 0", rows("1,1,a,0,1", "1,1,b,1,0"), finding="positions-from-zero"),
    Broken(
        "positions from 0 and from 1", more("1,3,a,0,1", "1,3,b,1,0"), finding="position-base-mixed"
    ),
    Broken("negative position", more("1,3,a,-1,0"), finding="position-below-one"),
    Broken("position of 10^9", more("1,3,a,1000000000,0"), finding="position-too-large"),
    Broken(
        "position of 10^30",
        values(position="10.0::DOUBLE ** (10 * i)"),
        finding="position-too-large",
    ),
    Broken("infinite position", values(position="'inf'::DOUBLE"), finding="position-too-large"),
    Broken("position 1.5", more("1,3,a,1.5,0"), finding="position-not-whole"),
    Broken("position NaN", values(position="'nan'::DOUBLE"), finding="position-missing"),
    Broken("no position for a click", more("1,3,a,,1"), finding="click-without-impression"),
    Broken("no position for a non-click", more("1,3,a,,0"), finding="position-missing"),
    Broken("positions in words", more("1,3,a,first,0"), finding="position-type"),
    Broken("positions that are lists", values(position="[i]"), finding="position-type"),
    Broken(
        "positions that are dates", values(position="DATE '2026-01-01'"), finding="position-type"
    ),
    # clicks
    Broken("click yes and no", values(click="'yes'"), finding="click-type"),
    Broken("click counts", more("1,3,a,1,7"), finding="click-not-binary"),
    Broken("negative click", more("1,3,a,1,-1"), finding="click-not-binary"),
    Broken("click missing", more("1,3,a,1,"), finding="click-missing"),
    Broken("clicked rows only", rows("1,1,a,1,1", "1,2,b,2,1"), finding="clicked-rows-only"),
    Broken("no clicks", rows("1,1,a,1,0", "1,1,b,2,0"), finding="no-clicks"),
    Broken("no pairs", rows("1,1,a,1,1", "1,2,a,1,0"), finding="no-pairs"),
    # ids
    Broken("query missing", more(",3,a,1,0"), finding="id-missing"),
    Broken("session missing", more("1,,a,1,0"), finding="id-missing"),
    Broken("doc missing", values(doc_id="CASE WHEN i > 0 THEN i END"), finding="id-missing"),
    Broken("ids with fractions", values(query_id="1.5::DOUBLE"), finding="id-type"),
    Broken("ids that are structures", values(doc_id="{'a': i}"), finding="id-type"),
    Broken(
        "ids that are words for nothing",
        more("1,3,null,1,0", "1,3,None,2,0"),
        finding="id-placeholder",
    ),
    Broken("ids that differ by case", more("1,3,A,1,0"), finding="ids-nearly-equal"),
    # sessions
    Broken("rows twice", rows(*GOOD, *GOOD), finding="duplicate-rows"),
    Broken(
        "impressions and clicks as rows",
        rows("1,1,a,1,0", "1,1,a,1,1", "1,1,b,2,0"),
        finding="impression-and-click-rows",
    ),
    Broken("doc at two positions", more("1,3,a,1,0", "1,3,a,2,1"), finding="duplicate-doc"),
    Broken(
        "position twice",
        more("1,3,a,1,0", "1,3,b,2,1", "1,3,c,3,0", "1,3,d,3,0"),
        finding="duplicate-position",
    ),
    Broken(
        "two lists in a session",
        more("1,3,a,1,0", "1,3,b,2,1", "1,3,c,1,0", "1,3,d,2,0"),
        finding="session-several-rankings",
    ),
    # further columns
    Broken(
        "randomised in another language",
        values(randomised="'zufall'"),
        finding="randomised-unknown",
    ),
    Broken(
        "randomised changes in a session",
        values(randomised="i > 0"),
        finding="session-not-constant",
    ),
    Broken("propensity negative", values(propensity="-0.5::DOUBLE"), finding="propensity-invalid"),
    Broken("propensity NaN", values(propensity="'nan'::DOUBLE"), finding="propensity-invalid"),
    Broken(
        "propensity 0 where clicked", values(propensity="0.0::DOUBLE"), finding="propensity-invalid"
    ),
    Broken("propensity in words", values(propensity="'high'"), finding="propensity-invalid"),
    Broken("time missing", values(timestamp="NULL::TIMESTAMP"), finding="timestamp-invalid"),
    Broken("time in words", values(timestamp="'yesterday'"), finding="timestamp-invalid"),
    Broken("time a share of a day", values(timestamp="0.5::DOUBLE"), finding="timestamp-invalid"),
    Broken("time in seconds", values(timestamp="1700000000 + i"), finding="timestamp-suspect"),
    # tables of features
    Broken(
        "feature rows disagree",
        with_table(more(), "query_id,doc_id,x\n1,a,1\n1,a,2\n1,b,3\n"),
        finding="feature-table-disagrees",
        options=TABLE,
    ),
    Broken(
        "feature rows missing",
        with_table(more(), "query_id,doc_id,x\n1,a,1\n"),
        finding="feature-rows-missing",
        options=TABLE,
    ),
    Broken(
        "feature table without keys",
        with_table(more(), "doc_id,x\na,1\n"),
        error="no column 'query_id'",
        options=TABLE,
    ),
    Broken(
        "feature table without numbers",
        with_table(more(), "query_id,doc_id,x\n1,a,red\n"),
        error="no column of numbers",
        options=TABLE,
    ),
    Broken("no feature table", more(), error="no such file", options=TABLE),
]


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_there_are_many():
    assert len(LOGS) >= 40
    assert len({log.name for log in LOGS}) == len(LOGS)


@pytest.mark.parametrize("broken", LOGS, ids=lambda broken: broken.name)
def test_broken_log(broken, tmp_path, run, capsys):
    inputs, outputs = tmp_path / "in", tmp_path / "out"
    inputs.mkdir(), outputs.mkdir()
    log = broken.build(inputs)
    before = hashes(inputs)
    options = [option.format(folder=inputs) for option in broken.options]
    report = outputs / "report.html"
    page = ["--html", report] if broken.error else []
    code = run("audit", log, "--json", *page, *options)
    out, err = capsys.readouterr()
    assert hashes(inputs) == before
    assert "Traceback" not in out + err
    if broken.error:
        assert code == 2
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("prsrank: error: ")
        assert broken.error in err
        assert not list(outputs.iterdir())
        return
    found = json.loads(out)
    severities = {finding["code"]: finding["severity"] for finding in found["findings"]}
    assert broken.finding in severities
    assert code == (1 if "error" in severities.values() else 0)


@pytest.mark.parametrize(
    "log",
    [
        rows("日本,🦆,📦1,1,1", "日本,🦆,📦2,2,0"),
        rows('<b>,"\'; DROP TABLE x",a,1,1', '<b>,"\'; DROP TABLE x",{events},2,0'),
        rows("1,1,a,1,true", "1,1,b,2,false"),
        rows(*GOOD, name="log.CSV"),
        text("a log [1]*.csv", "\n".join([HEADER, *GOOD])),
        values(position="i::DOUBLE + 1"),
        values(click="i = 1"),
        values(query_id="-9223372036854775808"),
    ],
)
def test_odd_but_good_log(log, tmp_path, run, capsys):
    code = run("audit", log(tmp_path), "--json")
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert found["counts"]["clicks"] >= 1
    assert not [f for f in found["findings"] if f["severity"] == "error"]


def test_unreadable_folder(tmp_path, run, capsys, monkeypatch):
    log = folder_of(values())(tmp_path)

    scandir = os.scandir

    def refuse(path):
        if path == str(log) or path == log:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert run("audit", log) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "Permission denied" in err


def test_unreadable_file(tmp_path, run, capsys, monkeypatch):
    log = values()(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert run("audit", log) == 2
    assert "cannot be read (permission)" in capsys.readouterr().err


def test_disk_full_while_writing(tmp_path, run, capsys, monkeypatch):
    log = more()(tmp_path)
    report = tmp_path / "report.html"
    report.write_text("an older report")

    def full(self, *_, **__):
        with self.open("w") as stream:
            stream.write("<html>")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert run("audit", log, "--html", report) == 2
    err = capsys.readouterr().err
    assert err.splitlines()[-1] == (
        f"prsrank: error: {report}: cannot be written: No space left on device"
    )
    assert report.read_text() == "an older report"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.csv", "report.html"]


def test_report_replaced_only_when_whole(tmp_path, run, capsys, monkeypatch):
    log = more()(tmp_path)
    monkeypatch.setattr(
        drafts.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full"))
    )
    assert run("audit", log, "--html", tmp_path / "report.html") == 2
    assert "cannot be written: full" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["log.csv"]
