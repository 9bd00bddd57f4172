"""A small experiment that runs in seconds."""

import pytest

from prsrank.experiment.spec_files import parse_spec


@pytest.fixture
def spec_values():
    """What the TOML file of a small experiment holds."""
    return {
        "id": "tiny",
        "title": "A tiny experiment",
        "claim": "PRS beats naive.",
        "metrics": ["ndcg@10", "map"],
        "folds": 2,
        "runs": 2,
        "axis": {"name": "clicks", "title": "clicks", "scale": "log", "points": [100, 400]},
        "clicks": {"clicks": 400},
        "panels": [{"name": "linear", "ranker": "linear"}],
        "methods": [
            {"name": "production"},
            {"name": "naive"},
            {"name": "prs"},
            {"name": "labels"},
        ],
        "rankers": {"linear": {"grid": {"l2": [0.01, 1.0]}}},
        "test": [{"better": "prs", "than": ["naive"]}],
    }


@pytest.fixture
def tiny_spec(spec_values):
    return parse_spec(spec_values)
