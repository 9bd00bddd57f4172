"""What earlier versions wrote still opens: runs, models, states, compact logs, mappings, data sets.

The files in `tests/stored` were written by version 0.1.0 of 2026-11-19, before its code was taken
apart; they are never written anew.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from prsrank import load_ranker
from prsrank.cli import run
from prsrank.data.collections import open_collection
from prsrank.logs.mapping import read_mapping
from prsrank.logs.reading import read_log

STORED = Path(__file__).parent / "stored"
LOGS = Path(__file__).parent / "golden" / "logs"
MODELS = json.loads((STORED / "models" / "scores.json").read_text())


@pytest.fixture
def stored_run(tmp_path):
    """Return a copy of the stored run whose inputs lie where they are now."""
    folder = shutil.copytree(STORED / "run", tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    for role in ("log", "features"):
        manifest["settings"][role] = str(LOGS / Path(manifest["settings"][role]).name)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.mark.parametrize("name", MODELS["scores"])
def test_a_model_scores_as_it_did(name):
    scores = load_ranker(STORED / "models" / name).score(np.array(MODELS["features"], np.float32))
    np.testing.assert_allclose(scores, MODELS["scores"][name], rtol=1e-6)


@pytest.mark.parametrize(
    "command",
    [
        "evaluate {run} --json",
        "explore {run} --out {out}/explore.html",
        "judge {run} --out {out}/judgements.csv",
        "export {run} --to solr --out {out}/solr.json",
        "rank {run}/model --features {logs}/features.parquet --out {out}/ranked.parquet",
        "sensitivity {run} --out {out}/study",
    ],
)
def test_commands_take_a_run(command, stored_run, tmp_path, capsys):
    words = command.format(run=stored_run, out=tmp_path, logs=LOGS).split()
    assert run(words) == 0, capsys.readouterr().err


def test_a_fit_is_repeated_from_its_manifest(stored_run, tmp_path, capsys):
    words = f"fit --from {stored_run}/manifest.json --out {tmp_path}/again --json".split()
    assert run(words) == 0, capsys.readouterr().err
    assert (tmp_path / "again" / "model" / "model.txt").exists()


def test_a_monitor_goes_on_from_its_state(stored_run, tmp_path, capsys):
    state = shutil.copy(STORED / "state.json", tmp_path / "state.json")
    words = ["monitor", stored_run, LOGS / "contexts.parquet", "--state", state]
    words += ["--mapping", STORED / "shop.toml", "--features", LOGS / "features.parquet"]
    assert run([*map(str, words), "--json"]) in (0, 1), capsys.readouterr().err


def test_a_compact_log_is_read():
    log, _ = read_log(STORED / "compact")
    assert (len(log.clicks), log.queries) == (400, 20)


def test_a_mapping_is_read():
    mapping = read_mapping(STORED / "shop.toml")
    assert mapping.contexts == ("device",)
    assert mapping.column("randomised") == "randomised"


def test_a_converted_data_set_opens():
    assert open_collection(str(STORED / "lists.safetensors")).everything().lists == 12
