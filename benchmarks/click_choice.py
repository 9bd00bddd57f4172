"""How often the click model of a log is found: counts by kind of user.

Run: python benchmarks/click_choice.py [COLLECTION] [--clicks 1 6] [--logs 100] [--first 0]

Each log has its own production ranker and seed. The propensities are the true mean curve of the kind.
"right" counts logs taken for a cascade where users are one, and for position-based clicks where
they are not; "either" is a reader without satisfaction, whom both describe. The last columns are
the quartiles of the cascade's advantage in standard errors, and θ over click rate at position 1.
"""

import argparse
from dataclasses import replace

import numpy as np

from prsrank.clicks.cascade import CascadeModel
from prsrank.clicks.depth_mixture import DepthMixtureModel
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.clicks.trust import TrustBiasModel
from prsrank.clicks.user_browsing import UserBrowsingModel
from prsrank.data.collections import open_collection
from prsrank.pairs.posterior import posterior

KINDS = {
    "cascade": CascadeModel(),
    "cascade, satisfaction .5": CascadeModel(satisfaction=(0.5, 0.5)),
    "position-based": PositionBasedModel(),
    "trust": TrustBiasModel(),
    "strong mixture": DepthMixtureModel(powers=(0.3, 3)),
    "mild mixture": DepthMixtureModel(powers=(0.5, 1.5)),
    "three kinds": DepthMixtureModel(powers=(0.2, 1, 3), shares=(0.3, 0.4, 0.3)),
    "neighbours": PositionBasedModel(),
    "user browsing": UserBrowsingModel(near=0.9),
    "either: satisfaction 0": CascadeModel(satisfaction=(0, 0), gamma=0.8),
}


def less_beside_relevant_docs(log, lists, seed):
    """Draw the clicks again: docs attract less beside a relevant one."""
    rng = np.random.default_rng(seed)
    rows = log.doc_rows(lists)[log.ranking_docs]
    theta = np.where(lists.relevance[rows] > 0, 0.9, 0.1)
    starts, clicks = log.ranking_offsets, []
    for ranking in log.session_ranking:
        own = theta[starts[ranking] : starts[ranking + 1]]
        beside = np.append(own[1:], 0) + np.append(0, own[:-1])
        p = own * (1 - 0.3 * beside) / np.arange(1, len(own) + 1)
        clicks.append(np.flatnonzero(rng.random(len(own)) < p))
    counts = np.array([len(own) for own in clicks], np.int32)
    return replace(log, clicks=np.concatenate(clicks).astype(np.int32), session_clicks=counts)


def choice_of(train, kind, per_query, seed):
    """Simulate a log and return the choice of its click model."""
    model = KINDS[kind]
    lists, scores = logging_part(train, [production_scores(train, seed=seed)])
    log = simulate_clicks(lists, scores, model, clicks=round(per_query * lists.lists), seed=seed)
    if kind == "neighbours":
        log = less_beside_relevant_docs(log, lists, seed)
    depth = log.max_position
    curve = 1 / np.arange(1, depth + 1)
    if isinstance(model, DepthMixtureModel):
        curve = model.examination(depth)
    if kind == "either: satisfaction 0":
        curve = 0.8 ** np.arange(depth)
    return posterior(log, lists, curve[log.ranking_positions - 1], seed=seed).choice


def main():
    """Print one line for each kind and number of clicks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("collection", nargs="?", default="synthetic:mq2007:400:77")
    parser.add_argument("--clicks", type=float, nargs="+", default=[1, 6])
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    options = parser.parse_args()
    train = open_collection(options.collection).load("train")
    for per_query in options.clicks:
        for kind in options.kinds:
            seeds = range(options.first, options.first + options.logs)
            choices = [choice_of(train, kind, per_query, seed) for seed in seeds]
            taken = sum(choice.cascade for choice in choices)
            right = taken if kind.startswith("cascade") else len(choices) - taken
            ahead = np.array([choice.advantage for choice in choices])
            low, *middle, high = np.quantile(ahead, [0, 0.25, 0.5, 0.75, 1]).round(1).tolist()
            print(
                f"{options.collection} {per_query:g} {kind}: right {right} of {len(choices)}; "
                f"advantage {low} to {high}, quartiles {middle}; above 0, 1, 2: "
                f"{[int((ahead > least).sum()) for least in (0, 1, 2)]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
