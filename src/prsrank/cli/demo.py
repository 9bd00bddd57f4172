"""The command `prsrank demo`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from prsrank.cli.compile_ahead import compile_ahead
from prsrank.cli.inputs import lists_of
from prsrank.cli.options import working
from prsrank.cli.simulate import check_room
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.files import write_json
from prsrank.fit import fit_log
from prsrank.logs.click_log_files import write_events
from prsrank.metrics.ranking import average, metric
from prsrank.metrics.significance import paired_t_test
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.report.fit_report import conclusions
from prsrank.report.numbers import range_text
from prsrank.types import Floats

_METRICS = ("ndcg@5", "ndcg@10", "map", "mrr")
_PRODUCTION = "production"
_DATA = "synthetic:mq2007:300"
_TRIALS, _TREES, _TREES_OF_LABELS = 2, 50, 100


def demo(
    out: Path = Path("demo"),
    clicks: Annotated[int, typer.Option(min=100)] = 20000,
) -> None:
    r"""Show the whole way from biased clicks to a verdict, on data that is built in.

    Simulate biased clicks (eta 1, mu 0.1, a tenth of the sessions randomised), fit rankers to
    them, say what the clicks say of them, and check it on the labels of the test part, which no
    ranker has seen. DIR/fitted is what fit writes: report.html says it with charts, and
    explore.html shows queries before and after.

    Args:
        out (DIR): Where results go.
        clicks: Number of simulated clicks.

    \b
    Example:
      prsrank demo --out demo
    """
    check_room(clicks, "clicks")
    compile_ahead()
    train, validation, test = (lists_of(_DATA, part) for part in ("train", "validation", "test"))
    with working("simulating clicks"):
        production = production_scores(train)
        lists, scores = logging_part(train, [production])
        users = PositionBasedModel(eta=1, mu=0.1)
        log = simulate_clicks(lists, scores, users, clicks=clicks, randomised=0.1)
        write_events(log, out / "log.parquet")
    typer.echo(
        f"{_DATA}: {len(log.clicks):,} clicks in {log.sessions:,} sessions on {log.queries} lists, "
        f"a tenth randomised; {test.lists} other lists to test on"
    )
    with working("fitting"):
        result = fit_log(
            out / "log.parquet",
            data=_DATA,
            out=out / "fitted",
            force=True,
            trials=_TRIALS,
            trees=_TREES,
        )
        everything = LambdaMART(trees=_TREES_OF_LABELS)  # it learns from the labels
        pairs = PairSet.from_labels(lists, **everything.pair_options)
        everything.fit(lists, pairs, validation=validation)
    if (curve := result.propensities.curve) is not None:
        shown = ", ".join(f"{p:.2f}" for p in curve.propensity[:6])
        typer.echo(f"propensities: {shown} ... (true: 1.00, 0.50, 0.33, 0.25 ...)")
    for line in ("", *conclusions(result)):
        typer.echo(line)
    rankers = {
        **{name: best.ranker for name, best in reversed(list(result.tuned.items()))},
        f"{result.choice.name}, all sessions": result.model,
        "full information": everything,
    }
    scored = {name: ranker.score(test.features) for name, ranker in rankers.items()}
    table = _measured(test, {_PRODUCTION: production.score(test.features), **scored})
    names = "".join(f"{name:>9}" for name in _METRICS)
    typer.echo(f"\n{'on labels of the test part':<30}{names}   gain in ndcg@10 (95 % interval)")
    for name, row in table.items():
        ends = range_text(row["gain_low"], row["gain_high"], "+.3f")
        gain = "" if name == _PRODUCTION else f"   {row['gain']:+.3f} ({ends})"
        typer.echo(f"{name:<30}{''.join(f'{row[m]:9.4f}' for m in _METRICS)}{gain}")
    write_json(out / "results.json", table)
    typer.echo(f"\nlook at: {result.folder / 'report.html'}, {result.folder / 'explore.html'}")


def _measured(test: RankingDataset, scored: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
    """Return the metrics of each ranker on labels, and its gain over production."""
    table: dict[str, dict[str, float]] = {}
    first = metric("ndcg@10")(test.relevance, scored[_PRODUCTION], test.offsets)
    for name, scores in scored.items():
        values = {m: metric(m)(test.relevance, scores, test.offsets) for m in _METRICS}
        gain = paired_t_test(values["ndcg@10"], first)
        ends = {"gain": gain.difference, "gain_low": gain.low, "gain_high": gain.high}
        table[name] = {m: average(value).mean for m, value in values.items()} | ends
    return table
