"""Position-based users of two rankers, simulated without the library's simulator."""

from typing import NamedTuple

import numpy as np

from prsrank.evaluation.interleaving import team_draft
from prsrank.logs.click_log import ClickLog


class World(NamedTuple):
    """Queries with as many docs each, in the order that production shows.

    relevance: P(click | seen) (queries x docs); p: propensities of the positions (docs).
    """

    relevance: np.ndarray
    p: np.ndarray

    def clicks(self, order):
        """Return the expected clicks of a session, docs ordered by indices (queries x docs)."""
        return (self.p * np.take_along_axis(self.relevance, order, 1)).sum(axis=1).mean()

    def better_order(self, gain, noise=0.2, seed=0):
        """Return an order with the gain: docs move by as much relevance as it takes, and noise."""
        moved = np.random.default_rng(seed).normal(scale=noise, size=self.relevance.shape)
        shown = np.broadcast_to(np.arange(len(self.p)), self.relevance.shape)
        logged = self.clicks(shown)
        sights = np.geomspace(0.1, 1000, 2000)
        orders = (np.argsort(np.log1p(shown) - s * self.relevance - moved) for s in sights)
        return min(orders, key=lambda order: abs(self.clicks(order) / logged - 1 - gain))


def make_world(*, queries=100, docs=6, eta=1.0, noise=0.3, seed=0):
    """Return queries whose docs production orders by a noisy sight of their relevance."""
    rng = np.random.default_rng(seed)
    relevance = rng.beta(0.8, 2.0, size=(queries, docs))
    order = np.argsort(-(relevance + rng.normal(scale=noise, size=relevance.shape)), axis=1)
    return World(np.take_along_axis(relevance, order, 1), np.arange(1, docs + 1) ** -float(eta))


def logged(world, sessions, seed=0):
    """Return a log of production."""
    rng = np.random.default_rng(seed)
    queries, docs = world.relevance.shape
    query = rng.integers(queries, size=sessions)
    clicked = rng.random((sessions, docs)) < world.p * world.relevance[query]
    return ClickLog(
        query_ids=np.arange(queries),
        doc_offsets=np.arange(queries + 1) * docs,
        doc_ids=np.tile(np.arange(docs), queries),
        ranking_query=np.arange(queries),
        ranking_offsets=np.arange(queries + 1) * docs,
        ranking_docs=np.arange(queries * docs),
        ranking_positions=np.tile(np.arange(1, docs + 1), queries),
        session_ranking=query,
        session_clicks=clicked.sum(axis=1),
        clicks=np.nonzero(clicked)[1],
    )


class Sessions(NamedTuple):
    """Interleaved sessions: query (sessions), doc, team and click at each position (x docs)."""

    query: np.ndarray
    doc: np.ndarray
    new: np.ndarray
    click: np.ndarray

    @property
    def credit(self):
        """Credit of production and of the new ranker (sessions each)."""
        return (self.click & ~self.new).sum(axis=1), (self.click & self.new).sum(axis=1)


def interleaved(world, order, sessions, seed=0):
    """Return sessions of users who see production's order and another one, interleaved."""
    rng = np.random.default_rng(seed)
    queries, docs = world.relevance.shape
    query = rng.integers(queries, size=sessions)
    new = np.empty(order.shape)
    np.put_along_axis(new, order, -np.broadcast_to(np.arange(docs), order.shape), 1)
    shown = np.tile(-np.arange(docs), sessions)
    offsets = np.arange(sessions + 1) * docs
    draft = team_draft(shown, new[query].ravel(), offsets, seed=seed)
    doc = (draft.rows % docs).reshape(sessions, docs)
    seen = world.p * np.take_along_axis(world.relevance[query], doc, 1)
    return Sessions(query, doc, draft.new.reshape(doc.shape), rng.random(doc.shape) < seen)
