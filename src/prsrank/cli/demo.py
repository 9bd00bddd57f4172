"""The command `prsrank demo`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from prsrank.cli.arguments import Seed, working

_METRICS = ("ndcg@5", "ndcg@10", "map", "mrr")
# weighting -> the parameters that are tried; the best on the validation part is taken
_WEIGHTINGS: dict[str, tuple[dict[str, float], ...]] = {
    "naive": ({},),
    "ips": ({"tau": 0.0}, {"tau": 0.05}, {"tau": 0.2}),
    "prs": ({"gamma": 1.0},),
    "labels": ({},),
}
_TITLES = {"labels": "full information"}


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results go.")] = Path("demo"),
    data: Annotated[str, typer.Option(help="The data set.")] = "synthetic:mq2007:300",
    clicks: Annotated[int, typer.Option(min=100, help="Number of simulated clicks.")] = 20_000,
    seed: Seed = 0,
) -> None:
    r"""Show the whole pipeline on built-in data.

    Simulate biased clicks (eta 1, mu 0.1, a tenth of the sessions randomised), estimate the
    propensities from the randomised sessions, train linear and LambdaMART rankers on the
    clicks with several weightings, and compare them with the production ranker, whose
    rankings were clicked, on the labels of the test part.

    \b
    Example:
      prsrank demo --out demo
    """
    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.production import logging_part, production_scores
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.data.collections import open_collection
    from prsrank.files import write_json
    from prsrank.propensity.plot import plot_propensities
    from prsrank.propensity.randomised import RandomisedEstimator

    with working(f"reading {data}"):
        collection = open_collection(data)
        train, validation, test = (collection.load(s) for s in ("train", "validation", "test"))
    typer.echo(
        f"{collection.name}: {train.lists} training, {validation.lists} validation, "
        f"{test.lists} test lists"
    )
    with working("simulating clicks"):
        production = production_scores(train, seed=seed)
        lists, scores = logging_part(train, [production])
        log = simulate_clicks(
            lists,
            scores,
            PositionBasedModel(eta=1, mu=0.1),
            clicks=clicks,
            seed=seed,
            randomised=0.1,
        )
    typer.echo(f"clicks: {len(log.clicks):,} in {log.sessions:,} sessions, a tenth randomised")
    with working("estimating propensities"):
        curve = RandomisedEstimator(shape="monotone").estimate(log, seed=seed)
    shown = ", ".join(f"{p:.2f}" for p in curve.propensity[:6])
    typer.echo(f"propensities by randomisation: {shown} ... (true: 1.00, 0.50, 0.33, 0.25 ...)")
    rows = {"production": production.score(test.features)}
    for ranker in ("linear", "lambdamart"):
        for weighting in _WEIGHTINGS:
            title = f"{ranker}, {_TITLES.get(weighting, weighting)}"
            with working(f"training {title}"):
                model = _best(ranker, weighting, log, lists, curve, validation, seed)
            rows[title] = model.score(test.features)
    shown_first = rows["production"]
    table = {title: _measure(test, values, shown_first) for title, values in rows.items()}
    _show(table)
    plot_propensities({"randomised": curve}, out / "propensities.html")
    write_json(out / "results.json", table)
    typer.echo(f"written: {out / 'results.json'}, {out / 'propensities.html'}")


def _best(
    ranker: str, weighting: str, log: Any, lists: Any, curve: Any, validation: Any, seed: int
) -> Any:
    """Train with each of the weighting's parameters; return the best on the validation part."""
    from prsrank.rankers.lambdamart import LambdaMART, ndcg_of
    from prsrank.rankers.linear import LinearRanker

    quality = ndcg_of(validation)
    models: list[tuple[float, Any]] = []
    for parameters in _WEIGHTINGS[weighting]:
        model: Any = LinearRanker(missing="impute")
        options: dict[str, Any] = {}
        if ranker == "lambdamart":
            model = LambdaMART(trees=150, learning_rate=0.1, patience=20, seed=seed)
            options["validation"] = validation
        pairs = model.pairs(log, lists, curve, weighting, parameters=parameters)
        model.fit(lists, pairs, **options)
        models.append((quality(model.score(validation.features)), model))
    return max(models, key=lambda pair: pair[0])[1]


def _measure(test: Any, scores: Any, production: Any) -> dict[str, float]:
    from prsrank.metrics.ranking import average, metric
    from prsrank.metrics.significance import paired_bootstrap

    values = {n: metric(n)(test.relevance, scores, test.offsets) for n in _METRICS}
    gain = paired_bootstrap(
        values["ndcg@10"], metric("ndcg@10")(test.relevance, production, test.offsets)
    )
    means = {name: average(value).mean for name, value in values.items()}
    return means | {"gain": gain.difference, "gain_low": gain.low, "gain_high": gain.high}


def _show(table: dict[str, dict[str, float]]) -> None:
    typer.echo(
        f"\n{'on the test part':<30}"
        + "".join(f"{name:>9}" for name in _METRICS)
        + "   gain in ndcg@10 (95 % interval)"
    )
    for title, values in table.items():
        gain = f"   {values['gain']:+.3f} ({values['gain_low']:+.3f} to {values['gain_high']:+.3f})"
        typer.echo(
            f"{title:<30}"
            + "".join(f"{values[name]:9.4f}" for name in _METRICS)
            + gain * (title != "production")
        )
