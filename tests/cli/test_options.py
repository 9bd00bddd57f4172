"""Values that an option cannot take: one line, exit code 2, before any work."""

import time

import pytest

DATA = "synthetic:mq2007:20"


@pytest.mark.parametrize("count", ["--clicks", "--sessions"])
def test_more_clicks_than_the_machine_can_hold(count, prsrank, tmp_path):
    code, _, errors = prsrank("simulate", DATA, count, 10**12, "--out", tmp_path / "x.parquet")
    assert code == 2
    assert f"1,000,000,000,000 {count[2:]} take about 16,000 GB of memory" in errors


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("trees=abc", "trees must be a whole number"),
        ("leaves=1", "leaves must be from 2"),
        ("learning_rate=NaN", "learning_rate must be a finite number"),
        ("threads=100000", "threads must be from 1"),
        ("trees=" + "9" * 5000, "trees must be a whole number"),
        ("parameters=" + "[" * 100_000, "nested too deep"),
        ("parameters=3", "parameters must be a table or nothing"),
        ("metric=[1]", "metric must be a text"),
    ],
)
def test_settings_of_a_ranker(given, message, prsrank, tmp_path):
    started = time.perf_counter()
    log = ["train", tmp_path / "no-such-log.parquet", "--data", DATA]
    code, _, errors = prsrank(*log, "--set", given, "--out", tmp_path / "m")
    assert code == 2
    assert message in errors
    assert errors.count("\n") == 1
    assert time.perf_counter() - started < 60


def test_a_seed_that_lightgbm_cannot_hold(prsrank, tmp_path):
    code, _, errors = prsrank("split", "log", "--seed", 2**31, "--out", tmp_path / "x")
    assert code == 2
    assert "--seed" in errors
