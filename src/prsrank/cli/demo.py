"""The command `prsrank demo`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prsrank.cli.arguments import Seed, working

if TYPE_CHECKING:
    from prsrank.report.demo_report import Trained

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
    rankings were clicked, on the labels of the test part. DIR/report.html shows it all.

    \b
    Example:
      prsrank demo --out demo
    """
    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.production import logging_part, production_scores
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.data.collections import open_collection
    from prsrank.files import write_json
    from prsrank.propensity.curve import power_law
    from prsrank.propensity.randomised import RandomisedEstimator
    from prsrank.report.demo_report import demo_report
    from prsrank.report.html import write_report
    from prsrank.report.parts import about_rows

    started = time.perf_counter()

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
    shown_first = production.score(test.features)
    trained: list[Trained] = []
    for ranker in ("linear", "lambdamart"):
        for weighting in _WEIGHTINGS:
            with working(f"training {ranker}, {weighting}"):
                best = _best(ranker, weighting, log, lists, curve, validation, seed)
            trained.append(_tested(ranker, weighting, *best, test=test, production=shown_first))
    first = _measure(test, shown_first, shown_first)
    table = {"production": first} | {one.title: dict(one.values) for one in trained}
    _show(table)
    command = f"prsrank demo --data {data} --clicks {clicks} --seed {seed}"
    with working("writing the report"):
        report = demo_report(
            data=collection.name,
            log=log,
            curve=curve,
            truth=power_law(1.0, range(1, curve.positions + 1)).tolist(),
            production=first,
            trained=trained,
            metrics=_METRICS,
            about=about_rows(seed=seed, started=started, command=command),
        )
        write_json(out / "results.json", table)
        write_report(report, out / "report.html")
    typer.echo(f"written: {out / 'results.json'}, {out / 'report.html'}")


def _best(
    ranker: str, weighting: str, log: Any, lists: Any, curve: Any, validation: Any, seed: int
) -> tuple[Any, Any, dict[str, float]]:
    """Train with each of the weighting's parameters; return the best on the validation part."""
    from prsrank.rankers.lambdamart import LambdaMART, ndcg_of
    from prsrank.rankers.linear import LinearRanker

    quality = ndcg_of(validation)
    models: list[tuple[float, Any, Any, dict[str, float]]] = []
    for parameters in _WEIGHTINGS[weighting]:
        model: Any = LinearRanker(missing="impute")
        options: dict[str, Any] = {}
        if ranker == "lambdamart":
            model = LambdaMART(trees=150, learning_rate=0.1, patience=20, seed=seed)
            options["validation"] = validation
        pairs = model.pairs(log, lists, curve, weighting, parameters=parameters)
        model.fit(lists, pairs, **options)
        models.append((quality(model.score(validation.features)), model, pairs, parameters))
    return max(models, key=lambda tried: tried[0])[1:]


def _tested(
    ranker: str,
    weighting: str,
    model: Any,
    pairs: Any,
    parameters: dict[str, float],
    *,
    test: Any,
    production: Any,
) -> "Trained":
    from prsrank.report.demo_report import Trained

    values = _measure(test, model.score(test.features), production)
    title = _TITLES.get(weighting, weighting)
    return Trained(ranker, title, model, parameters, pairs.diagnostics(), values)


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
