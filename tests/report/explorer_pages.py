"""Made-up queries for the explorer: lists, evidence and linear rankers, without any training."""

import base64
import gzip
import json

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.preprocess import FeatureScaling
from prsrank.rankers.linear import LinearRanker
from prsrank.report.explorer_data import explored

RANKERS = ("model", "posterior", "prs", "ips", "naive", "lightgbm_position")


def linear_ranker(weights):
    ranker = LinearRanker()
    ranker.weights_ = np.asarray(weights, float)
    none = np.zeros(0)
    size = len(ranker.weights_)
    ranker.scaling_ = FeatureScaling(np.zeros(size), np.ones(size), none.astype(int), none)
    ranker.feature_names_ = tuple(f"f{i}" for i in range(size))
    return ranker


def made_evidence(rng, docs):
    theta = rng.beta(1, 6, docs)
    half = rng.uniform(0.01, 0.1, docs)
    impressions = rng.integers(1, 500, docs)
    position = rng.uniform(1, 50, docs)
    return {
        "impressions": impressions.astype(float),
        "clicks": rng.binomial(impressions, theta / position).astype(float),
        "position": position,
        "propensity": 1 / position,
        "theta": theta,
        "low": np.maximum(theta - half, 0),
        "high": np.minimum(theta + half, 1),
    }


def made(
    queries, docs, *, features=46, names=RANKERS, query_ids=None, doc_ids=None, seed=0, why=None
):
    """Return what `explorer_html` takes first: the queries, their lists, and the rankers."""
    rng = np.random.default_rng(seed)
    total = queries * docs
    lists = RankingDataset(
        rng.normal(size=(total, features)),
        np.arange(0, total + 1, docs),
        query_ids=query_ids,
        doc_ids=doc_ids,
        feature_names=tuple(f"f{i}" for i in range(features)),
    )
    rankers = {name: linear_ranker(rng.normal(size=features)) for name in names}
    scores = {name: one.score(lists.features) for name, one in rankers.items()}
    sessions = rng.integers(1, 1000, queries).astype(float)
    found = explored(lists, made_evidence(rng, total), sessions, scores, why=why)
    return found, lists, rankers


def unpacked(block):
    """Read a block as `explorer.packed` describes it."""
    content = gzip.decompress(base64.b64decode(block))
    size = int.from_bytes(content[:4], "little")
    head, at, arrays = json.loads(content[4 : 4 + size]), 4 + size, {}
    for name, kind, length in head["arrays"]:
        planes = np.frombuffer(content, np.uint8, 4 * length, at).reshape(4, length)
        arrays[name] = planes.T.copy().view(f"<{kind}4").ravel()
        at += 4 * length
    assert at == len(content)
    return head["meta"], arrays
