"""Events by the position-based model, and the command line with the command audit."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from prsrank import cli
from prsrank.audit import Audit, audit
from prsrank.logs.event_source import open_frame

Events = dict[str, np.ndarray]


def simulated_events(
    *,
    sessions: int = 3000,
    queries: int = 20,
    length: int = 8,
    rankers: int = 2,
    design: Callable[[np.random.Generator], str] = lambda rng: "",
    seed: int = 0,
) -> Events:
    """Return events of sessions that examine position k with probability k^-0.6."""
    rng = np.random.default_rng(seed)
    relevance = rng.uniform(0.1, 0.9, (queries, length))
    orders = [[rng.permutation(length) for _ in range(rankers)] for _ in range(queries)]
    parts: dict[str, list[Any]] = {name: [] for name in ("query_id", "doc_id", "click", "mark")}
    for _ in range(sessions):
        query = int(rng.integers(queries))
        order = orders[query][int(rng.integers(rankers))].copy()
        mark = design(rng)
        shuffle(order, mark, rng)
        seen = rng.random(length) < np.arange(1, length + 1) ** -0.6
        parts["query_id"].append(np.full(length, query))
        parts["doc_id"].append(query * 100 + order)
        parts["click"].append(seen & (rng.random(length) < relevance[query, order]))
        parts["mark"].append(np.full(length, mark, object))
    events = {name: np.concatenate(values) for name, values in parts.items()}
    events["session_id"] = np.repeat(np.arange(sessions), length)
    events["position"] = np.tile(np.arange(1, length + 1), sessions)
    events["click"] = events["click"].astype(np.int64)
    mark = events.pop("mark")
    if (mark != "").any():
        events["randomised"] = mark
    return events


def shuffle(order: np.ndarray, mark: str, rng: np.random.Generator) -> None:
    """Put a list in a random order, as far as a design says."""
    if mark == "uniform":
        rng.shuffle(order)
    elif mark.startswith("top-k:"):
        rng.shuffle(order[: int(mark[6:])])
    elif mark.startswith("swap:") and rng.random() < 0.5:
        one, two = (int(k) - 1 for k in mark.split(":")[1:])
        order[[one, two]] = order[[two, one]]


def audit_of(
    events: Events, *, contexts: Sequence[str] = (), features: Sequence[str] = ()
) -> Audit:
    with open_frame(events) as source:
        return audit(source, contexts=contexts, features=features)


@pytest.fixture(scope="session")
def simulate() -> Callable[..., Events]:
    return simulated_events


@pytest.fixture(scope="session")
def audited() -> Callable[..., Audit]:
    return audit_of


@pytest.fixture(scope="session")
def clean() -> Events:
    return simulated_events()


@pytest.fixture(scope="session")
def run() -> Callable[..., int]:
    """Return the command line."""
    return lambda *arguments: cli.run([str(argument) for argument in arguments])
