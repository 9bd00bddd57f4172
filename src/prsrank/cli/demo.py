"""The command `prsrank demo`."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import typer

from prsrank.cli.arguments import RelevantFrom, Seed, check_room, working
from prsrank.cli.option_groups import DataOptions
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.files import write_json
from prsrank.logs.click_log import ClickLog
from prsrank.metrics.ranking import average, metric
from prsrank.metrics.significance import paired_bootstrap
from prsrank.propensity.curve import Propensities, power_law
from prsrank.propensity.randomised import RandomisedEstimator
from prsrank.rankers.base import ranker_class
from prsrank.rankers.lambdamart import ndcg_of
from prsrank.rankers.search import best_of
from prsrank.report.demo_report import Trained, demo_report
from prsrank.report.html import write_report
from prsrank.report.parts import about_rows
from prsrank.weighting import WEIGHTINGS

_METRICS = ("ndcg@5", "ndcg@10", "map", "mrr")
_RANKERS = ("linear", "lambdamart")
_WEIGHTINGS = {
    **{name: name for name in ("naive", "ips", "prs", "posterior")},
    "labels": "full information",
}


class _Clicked(NamedTuple):
    """What all rankers of the demo learn from and are judged by."""

    log: "ClickLog"
    lists: "RankingDataset"
    curve: "Propensities"
    validation: "RankingDataset"
    test: "RankingDataset"
    production: Any  # its scores of the test part


def demo(
    out: Path = typer.Option(Path("demo"), metavar="DIR", help="Where results go."),
    data: str = typer.Option("synthetic:mq2007:300", metavar="DATA", help="The data set."),
    relevant_from: RelevantFrom = None,
    clicks: int = typer.Option(20_000, min=100, help="Number of simulated clicks."),
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
    started = time.perf_counter()
    check_room(clicks, "clicks")
    world = _clicked(DataOptions(data, relevant_from=relevant_from), clicks, seed)
    trained = []
    for ranker in _RANKERS:
        for weighting in _WEIGHTINGS:
            with working(f"training {ranker}, {weighting}"):
                trained.append(_best(ranker, weighting, world, seed))
    first = _measure(world, world.production)
    table = {"production": first} | {one.title: dict(one.values) for one in trained}
    _show(table)
    command = f"prsrank demo --data {data} --clicks {clicks} --seed {seed}"
    with working("writing the report"):
        about = {"seed": seed, "started": started, "command": command}
        _write(out, data, table, world, trained, about)
    typer.echo(f"written: {out / 'results.json'}, {out / 'report.html'}")


def _clicked(data: DataOptions, clicks: int, seed: int) -> _Clicked:
    """Simulate clicks on the training part and estimate their propensities, telling so."""
    train, validation, test = (data.lists(split) for split in ("train", "validation", "test"))
    typer.echo(
        f"{data.data}: {train.lists} training, {validation.lists} validation, "
        f"{test.lists} test lists"
    )
    with working("simulating clicks"):
        production = production_scores(train, seed=seed)
        lists, scores = logging_part(train, [production])
        users = PositionBasedModel(eta=1, mu=0.1)
        log = simulate_clicks(lists, scores, users, clicks=clicks, seed=seed, randomised=0.1)
    typer.echo(f"clicks: {len(log.clicks):,} in {log.sessions:,} sessions, a tenth randomised")
    with working("estimating propensities"):
        curve = RandomisedEstimator(shape="monotone").estimate(log, seed=seed)
    shown = ", ".join(f"{p:.2f}" for p in curve.propensity[:6])
    typer.echo(f"propensities by randomisation: {shown} ... (true: 1.00, 0.50, 0.33, 0.25 ...)")
    return _Clicked(log, lists, curve, validation, test, production.score(test.features))


def _best(ranker: str, weighting: str, world: _Clicked, seed: int) -> "Trained":
    """Train with each of the weighting's parameters; keep the best on the validation part."""
    kind, quality = ranker_class(ranker), ndcg_of(world.validation)

    def try_one(parameters: Mapping[str, float]) -> tuple[float, tuple[Any, Any]]:
        model = kind(**kind.accepted(seed=seed), **kind.quick_settings)
        pairs = model.pairs(world.log, world.lists, world.curve, weighting, parameters=parameters)
        model.fit(world.lists, pairs, validation=world.validation)
        return quality(model.score(world.validation.features)), (model, pairs)

    best = best_of(WEIGHTINGS[weighting].search_grid, try_one).best
    model, pairs = best.result
    values = _measure(world, model.score(world.test.features))
    title = _WEIGHTINGS[weighting]
    return Trained(ranker, title, model, dict(best.candidate), pairs.diagnostics(), values)


def _measure(world: _Clicked, scores: Any) -> dict[str, float]:
    relevance, offsets = world.test.relevance, world.test.offsets
    values = {name: metric(name)(relevance, scores, offsets) for name in _METRICS}
    first = metric("ndcg@10")(relevance, world.production, offsets)
    gain = paired_bootstrap(values["ndcg@10"], first)
    means = {name: average(value).mean for name, value in values.items()}
    return means | {"gain": gain.difference, "gain_low": gain.low, "gain_high": gain.high}


def _show(table: Mapping[str, Mapping[str, float]]) -> None:
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


def _write(
    out: Path,
    data: str,
    table: Mapping[str, Mapping[str, float]],
    world: _Clicked,
    trained: "list[Trained]",
    about: dict[str, Any],
) -> None:
    report = demo_report(
        data=data,
        log=world.log,
        curve=world.curve,
        truth=power_law(1.0, range(1, world.curve.positions + 1)).tolist(),
        production=table["production"],
        trained=trained,
        metrics=_METRICS,
        about=about_rows(**about),
    )
    write_json(out / "results.json", dict(table))
    write_report(report, out / "report.html")
