"""What learning from a share of the queries costs, as trees do on Spark where docs exceed the memory.

Lists of WEB10K's shape get clicks at one rate per query. LambdaMART learns, by PRS and by posterior pairs, from as
many whole queries as hold a number of docs, drawn by the hash that a fit draws them by, and is judged by the labels of
other queries. Intervals are over those queries. Run: python benchmarks/sampled_docs.py --json
"""

import argparse
import json
import time
from dataclasses import replace
from typing import Any

import numpy as np

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.collections import open_collection
from prsrank.fit.engine import Weighed
from prsrank.fit.log import PiecedLog
from prsrank.metrics.ranking import ndcg
from prsrank.propensity.curve import PowerLaw
from prsrank.rankers.lambdamart import LambdaMART

DOCS = (200_000, 500_000, 1_000_000, 2_000_000)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON lines only")
    parser.add_argument("--queries", type=int, default=28_000, help="of the collection")
    parser.add_argument("--docs", type=int, nargs="+", default=DOCS, help="to learn from")
    parser.add_argument("--clicks-per-query", type=float, default=6)
    parser.add_argument("--trees", type=int, default=200)
    options = parser.parse_args()
    collection = open_collection(f"synthetic:web10k:{options.queries}")
    training, test = collection.load("train"), collection.load("test")
    test = test.select(np.arange(min(test.lists, 2_000)))
    production = production_scores(training, seed=0)
    lists, (scores,) = logging_part(training, [production])
    clicks = round(options.clicks_per_query * lists.lists)
    log = simulate_clicks(lists, scores, PositionBasedModel(), clicks=clicks, seed=0)
    for docs in options.docs:
        sampled = replace(PiecedLog.of([log], lists), share=min(docs / lists.docs, 1.0))
        for weighting in ("prs", "posterior"):
            row = measured(sampled, weighting, test, options.trees)
            print(json.dumps(row) if options.json else row, flush=True)


def measured(log: PiecedLog, weighting: str, test: Any, trees: int) -> dict[str, Any]:
    """Train on a log, and return NDCG@10 on other lists with its standard error over them."""
    begin = time.perf_counter()
    ranker = LambdaMART(trees=trees)
    pairs = log.fold(ranker, Weighed(PowerLaw(1.0), weighting, {}))
    ranker.fit(log.lists, pairs)
    seconds = time.perf_counter() - begin
    values = ndcg(test.relevance, ranker.score(test.features), test.offsets, k=10)
    judged = values[np.isfinite(values)]
    return {
        "weighting": weighting,
        "docs": log.lists.docs,
        "ndcg@10": float(judged.mean()),
        "standard error": float(judged.std() / np.sqrt(len(judged))),
        "seconds": seconds,
    }


if __name__ == "__main__":
    main()
