"""Posterior pairs beside naive, IPS and PRS: quality by collection, intervals, and time by clicks.

    python benchmarks/posterior.py quality MQ2008 --clicks-per-query 6 --folds 2
    python benchmarks/posterior.py coverage MQ2008 --clicks-per-query 1 6 20
    python benchmarks/posterior.py time --clicks 128000 1280000 12800000

Quality is NDCG@10 on the test part; trees stop early on the labels of the validation part, and
the clip of IPS is the best of three there. Coverage is how often the 95 % interval of a doc holds the
theta of the simulated users, 1 - mu or mu, over all docs and over those with a click. Time is that of prior, posterior and pairs, beside
that of pairs and fit of PRS-LambdaMART on the same log.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.experiment.inputs import Parts, open_folds, read_parts
from prsrank.pairs.doc_clicks import DocClicks
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.pairs.pair_set import PairSet
from prsrank.pairs.posterior import doubly_robust_pairs, posterior
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.tempering import temper, tempered
from prsrank.rankers.lambdamart import LambdaMART, ndcg_of
from prsrank.rankers.lightgbm_position import LightGBMPosition
from prsrank.rankers.linear import LinearRanker

TAUS = (0.0, 0.1, 0.3)
L2 = (0.001, 0.01, 0.1)


def logged(parts: Parts, clicks_per_query: float, run: int, **model: float) -> tuple[Any, Any]:
    """Return lists and a log of clicks on them."""
    production = production_scores(parts.train, seed=run)
    lists, (scores,) = logging_part(parts.train, [production])
    clicks = round(clicks_per_query * lists.lists)
    return lists, simulate_clicks(
        lists, scores, PositionBasedModel(**model), clicks=clicks, seed=run
    )


def score_of(parts: Parts, ranker: Any, lists: Any, pairs: Any) -> tuple[float, float]:
    """Train; return NDCG@10 on the validation and on the test part."""
    if isinstance(ranker, LambdaMART):
        ranker.fit(lists, pairs, validation=parts.validation)
    else:
        ranker.fit(lists, pairs)
    return tuple(
        ndcg_of(part)(ranker.score(part.features)) for part in (parts.validation, parts.test)
    )  # type: ignore[return-value]


def rankers(name: str) -> list[Any]:
    """Return the settings that are tried, the best on the validation part counts."""
    if name == "lambdamart":
        return [LambdaMART(trees=300, patience=30, threads=1)]
    if name == "position":
        return [LightGBMPosition(trees=300, patience=30, threads=1)]
    return [LinearRanker(l2=l2, missing="impute", threads=1) for l2 in L2]


def methods(
    lists: Any, log: Any, parts: Parts, options: Any, curve: Any, prior: str
) -> dict[str, Callable[[], list[tuple[Any, Any]]]]:
    """Return what makes the lists and the pairs of each method."""

    def weighted(name: str, *settings: dict[str, float]) -> Callable[[], list[tuple[Any, Any]]]:
        return lambda: [
            (lists, PairSet.from_log(log, lists, curve, name, parameters=s, **options))
            for s in settings
        ]

    found: list[Any] = []

    def theta() -> Any:
        if not found:
            judged = temper(log, lists, curve, threads=1)
            right = tempered(curve, judged.power) if judged.contradicts else curve
            found.append(posterior(log, lists, curve, prior=prior, threads=1))
            found.append(
                posterior(log, lists, right, prior=prior, threads=1)
                if judged.contradicts
                else found[0]
            )
        return found

    return {
        "naive": weighted("naive", {}),
        "ips": weighted("ips", *({"tau": tau} for tau in TAUS)),
        "prs": weighted("prs", {}),
        "symmetric": weighted("symmetric", *({"power": power} for power in (0.25, 0.5, 1.0))),
        "doubly robust": lambda: [
            (
                lists,
                doubly_robust_pairs(
                    log, lists, curve, parameters={"tau": t}, prior=prior, **options
                ),
            )
            for t in TAUS
        ],
        "posterior": lambda: [(lists, theta()[0].pairs(**options))],
        "tempered": lambda: [(lists, theta()[1].pairs(**options))],
        "prior": lambda: [(lists, OuterPairs.from_relevance(lists, theta()[0].prior, **options))],
        "position": lambda: [(lists, log)],
        "full": lambda: [(parts.train, PairSet.from_labels(parts.train, **options))],
    }


def quality(arguments: argparse.Namespace) -> None:
    """Print NDCG@10 of each method and ranker, mean over folds and runs."""
    model = {"eta": 1.0, "mu": arguments.mu}
    curve = PowerLaw(arguments.assumed_eta)
    for name in arguments.rankers:
        values: dict[str, list[float]] = {}
        for fold in range(1, arguments.folds + 1):
            parts = read_parts(open_folds(arguments.collection), fold)
            for run in range(arguments.runs):
                lists, log = logged(parts, arguments.clicks_per_query, run, **model)
                options = rankers(name)[0].pair_options
                made = methods(lists, log, parts, options, curve, arguments.prior)
                for method in arguments.methods or made:
                    kind = "position" if method == "position" else name
                    results = [
                        score_of(parts, ranker, of, pairs)
                        for of, pairs in made[method]()
                        for ranker in rankers(kind)
                    ]
                    values.setdefault(method, []).append(max(results)[1])
        row = "  ".join(f"{m} {np.mean(v):.3f}" for m, v in values.items())
        print(f"{arguments.collection} {arguments.clicks_per_query:g} {name}: {row}", flush=True)


def coverage(arguments: argparse.Namespace) -> None:
    """Print the share of docs whose interval holds the truth, mean and range over folds and runs."""
    for per_query in arguments.clicks_per_query:
        shares = []
        for fold in range(1, arguments.folds + 1):
            parts = read_parts(open_folds(arguments.collection), fold)
            for run in range(arguments.runs):
                lists, log = logged(parts, per_query, run, eta=1.0, mu=arguments.mu)
                found = posterior(log, lists, PowerLaw(1.0))
                truth = np.where(lists.relevance, 1 - arguments.mu, arguments.mu)
                inside = (found.low <= truth) & (truth <= found.high)
                clicked = DocClicks.of([log], lists, PowerLaw(1.0)).counted.evidence()
                own = clicked.sums(clicked.clicked) > 0
                shares.append((inside.mean(), inside[own].mean()))
        every, of_clicked = np.transpose(shares)
        print(
            f"{arguments.collection} {per_query:g}: {every.mean():.3f} ({every.min():.3f} to "
            f"{every.max():.3f}); docs with a click {of_clicked.mean():.3f}",
            flush=True,
        )


def timing(arguments: argparse.Namespace) -> None:
    """Print seconds of the steps of both methods, at several numbers of clicks."""
    parts = read_parts(open_folds(arguments.collection), 1)
    production = production_scores(parts.train, seed=0)
    lists, (scores,) = logging_part(parts.train, [production])
    ranker = LambdaMART(trees=arguments.trees)
    for clicks in arguments.clicks:
        log = simulate_clicks(lists, scores, PositionBasedModel(eta=1.0, mu=0.1), clicks=clicks)
        begun = time.perf_counter()
        found = posterior(log, lists, PowerLaw(1.0)).pairs(**ranker.pair_options)
        made = time.perf_counter()
        ranker.fit(lists, found)
        fitted = time.perf_counter()
        prs = ranker.pairs(log, lists, PowerLaw(1.0), "prs")
        ranker.fit(lists, prs)
        done = time.perf_counter()
        print(
            f"{len(log.clicks)} clicks, {lists.docs} docs: prior, posterior and pairs "
            f"{made - begun:.1f} s; LambdaMART on them {fitted - made:.1f} s; "
            f"pairs and fit of PRS {done - fitted:.1f} s",
            flush=True,
        )


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("quality")
    one.add_argument("collection")
    one.add_argument("--clicks-per-query", type=float, default=6)
    one.add_argument("--folds", type=int, default=5)
    one.add_argument("--runs", type=int, default=1)
    one.add_argument("--mu", type=float, default=0.1)
    one.add_argument("--assumed-eta", type=float, default=1.0)
    one.add_argument("--prior", default="trees")
    one.add_argument("--methods", nargs="+")
    one.add_argument("--rankers", nargs="+", default=["lambdamart", "linear"])
    one.set_defaults(command=quality)
    three = commands.add_parser("coverage")
    three.add_argument("collection")
    three.add_argument("--clicks-per-query", type=float, nargs="+", default=[1.0, 6.0, 20.0])
    three.add_argument("--folds", type=int, default=5)
    three.add_argument("--runs", type=int, default=1)
    three.add_argument("--mu", type=float, default=0.1)
    three.set_defaults(command=coverage)
    two = commands.add_parser("time")
    two.add_argument("--collection", default="synthetic:web10k:2000")
    two.add_argument("--clicks", type=int, nargs="+", default=[128_000, 1_280_000, 12_800_000])
    two.add_argument("--trees", type=int, default=500)
    two.set_defaults(command=timing)
    arguments = parser.parse_args()
    arguments.command(arguments)


if __name__ == "__main__":
    main()
