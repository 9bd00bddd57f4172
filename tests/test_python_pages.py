"""The Python of the pages runs: the notebook, its page, and the examples for other trainers."""

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import prsrank

DOCS = Path(__file__).resolve().parents[1] / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(source, folder, **known):
    """Run source as a file of its own; return what it defines."""
    file = folder / "page.py"
    file.write_text(source)
    return runpy.run_path(str(file), init_globals=known)


def sections(page):
    """The Python of each section of a page, by title; what comes first is under ""."""
    title, *parts = re.split(r"^## (.*)\n", (DOCS / page).read_text(), flags=re.MULTILINE)
    found = {"": title} | dict(zip(parts[::2], parts[1::2], strict=True))
    return {name: "\n".join(_BLOCK.findall(text)) for name, text in found.items()}


@pytest.fixture(scope="module")
def world():
    data = prsrank.synthetic_dataset("mq2007", 30, seed=3)
    model = prsrank.PositionBasedModel(eta=1.0)
    log = prsrank.simulate_clicks(data, data.features[:, 0], model, clicks=1500, seed=3)
    ones = np.ones(log.max_position)
    values = prsrank.PowerLaw(1.0).at(np.arange(1, log.max_position + 1))
    return data, log, prsrank.Propensities(values, values, values, ones, "given", "power")


@pytest.fixture
def page(world, tmp_path, monkeypatch):
    """What the page on other trainers takes as given, and the folder that it runs in."""
    monkeypatch.chdir(tmp_path)
    world[2].save("propensity.json")
    return {"data": world[0], "log": world[1], "folder": tmp_path}


@pytest.mark.parametrize("library", ["LightGBM", "XGBoost", "CatBoost"])
def test_the_example_for_trees_trains_on_the_clicks(page, library):
    pytest.importorskip(library.lower())
    found = sections("drop-in.md")
    made = run(found[""] + found[library], **page)
    matrix = page["data"].features
    if library == "XGBoost":
        matrix = made["xgboost"].DMatrix(matrix)
    scores = (made["model"] if library == "CatBoost" else made["booster"]).predict(matrix)
    clicked = prsrank.PairSet.from_log(page["log"], page["data"], made["propensities"], "prs")
    winners = clicked.offsets[clicked.winner_list] + clicked.winner_row
    # clicked docs are above the mean of all where anything was learned
    assert scores[winners].mean() > scores.mean()


@pytest.mark.neural
def test_the_example_for_pytorch_lowers_the_loss(page):
    import torch

    found = sections("drop-in.md")
    given = {
        "features": torch.randn(20, 5, 3),
        "clicks": (torch.arange(5) == 2).repeat(20, 1),
        "is_doc": torch.ones(20, 5, dtype=torch.bool),
    }
    source = found[""] + found["PyTorch"]
    torch.manual_seed(0)
    first = run(source.replace("range(10)", "range(1)"), **page, **given)["loss"]
    torch.manual_seed(0)
    made = run(source, **page, **given)
    assert made["loss"] < first


def test_every_trainer_of_the_page_has_a_test():
    assert set(sections("drop-in.md")) == {"", "LightGBM", "XGBoost", "CatBoost", "PyTorch"}


def code_cells():
    notebook = json.loads((DOCS / "notebook.ipynb").read_text())
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


def test_the_notebook_runs_and_its_model_beats_the_logged_ranking(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = run("\n".join(code_cells()), tmp_path)
    assert made["docs"]["score"].notna().all()
    found = made["found"].evaluation
    assert found.difference("posterior", "dcg@10").difference > 0


def test_the_notebook_needs_at_most_15_lines_from_frames_to_scores():
    _tables, *cells = code_cells()
    until = next(n for n, cell in enumerate(cells) if "predict(docs)" in cell)
    lines = [line for cell in cells[: until + 1] for line in cell.splitlines() if line.strip()]
    assert len(lines) <= 15


def test_the_page_on_python_runs(world, tmp_path):
    data, log, curve = world
    frame = {name: data.features[:, n] for n, name in enumerate(data.feature_names)}
    frame |= {"query_id": np.repeat(data.query_ids, data.list_lengths), "doc_id": data.doc_names}
    given = {"docs": frame, "clicks": log.to_frame(), "propensities": curve}
    made = run("\n".join(sections("python.md").values()), tmp_path, **given)
    assert set(made["scores"]) == {"7", "31"}
    assert len(made["docs"]["score"]) == data.docs
