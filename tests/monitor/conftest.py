"""A fit that is watched, and a log beside it of the same kind."""

import warnings

import pytest

from prsrank import fit_log, load_dataset, simulate_clicks, write_events
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import production_scores

DATA = "synthetic:personal:200"


@pytest.fixture(scope="session")
def sessions():
    """Draw sessions of the same lists and ranker; keywords change what is drawn."""
    lists = load_dataset(DATA)
    scores = [production_scores(lists, seed=1).score(lists.features), lists.features[:, 10]]

    def drawn(count, seed, *, eta=1.0, ranker=0, randomised=0.2):
        users = PositionBasedModel(eta=eta, mu=0.1)
        return simulate_clicks(
            lists, scores[ranker], users, sessions=count, seed=seed, randomised=randomised
        )

    return drawn


@pytest.fixture(scope="session")
def run(tmp_path_factory, sessions):
    """The folder of a fit of 3,000 sessions, whose log lies beside it."""
    folder = tmp_path_factory.mktemp("monitored")
    write_events(sessions(3000, 1), folder / "log.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_log(
            folder / "log.parquet", out=folder / "run", data=DATA, trials=1, trees=30,
            weighting="prs", force=True,
        )  # fmt: skip
    return folder / "run"
