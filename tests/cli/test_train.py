"""Which sessions `train` learns from and stops on."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from prsrank.cli import train
from prsrank.fit.judging import Trained, Weighed
from prsrank.logs.pieces import Extent


class Sessions:
    """Sessions that note how they are split and trained on."""

    left_out = 0

    def __init__(self, name):
        self.name, self.calls = name, []

    def extent(self):
        return Extent(9, 9, 5, 1)

    def split(self, how):
        self.how = how
        names = ("train", "validation", "held_out", "learning")
        self.parts = SimpleNamespace(**{name: Sessions(name) for name in names})
        return self.parts

    def train(self, rankers, how, *, validation=None, progress=None):
        self.calls.append((rankers, how, validation))
        return Trained((0.0,), f"pairs of {self.name}")


class Inputs:
    collection = table = path = source = "x"

    def __init__(self):
        self.sessions = Sessions("all")

    @contextmanager
    def opened(self, runner):
        yield SimpleNamespace(features=())

    def loaded(self, runner, source, split):
        assert split == "train"
        return self.sessions

    def dataset(self, split):
        return f"lists of {split}"


@pytest.fixture
def trained():
    where = SimpleNamespace(engine=lambda: nullcontext("engine"))
    model = SimpleNamespace(get_params=dict)

    def run(stop_on):
        inputs, how = Inputs(), Weighed(None, "prs", {})
        found = train._trained(model, how, stop_on, inputs, where, 8)
        return inputs.sessions, found

    return run


def test_stopping_on_clicks_holds_a_tenth_of_the_queries_out(trained):
    sessions, (diagnostics, clicks) = trained("clicks")
    how, parts = sessions.how, sessions.parts
    assert (how.way, how.share, how.seed) == ("query", 0.1, 8)
    ((_, _, validation),) = parts.learning.calls
    assert validation is parts.held_out
    assert (diagnostics, clicks) == ("pairs of learning", 5)
    assert not sessions.calls


@pytest.mark.parametrize(("stop_on", "lists"), [("labels", "lists of validation"), ("none", None)])
def test_stopping_on_labels_takes_those_of_the_validation_part(trained, stop_on, lists):
    sessions, (diagnostics, _) = trained(stop_on)
    ((_, _, validation),) = sessions.calls
    assert validation == lists
    assert diagnostics == "pairs of all"
