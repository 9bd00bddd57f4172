"""The command `prsrank fit`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from prsrank.cli.arguments import Json, Seed, print_json
from prsrank.cli.compile_ahead import compile_ahead
from prsrank.cli.log_inputs import ListInputs
from prsrank.cli.log_options import Spark, find_runner
from prsrank.errors import InputError
from prsrank.evaluation.results import LOGGED
from prsrank.fit import FitResult, fit_log, repeat_fit
from prsrank.fit.engine import METRIC
from prsrank.fit.explorer_page import EXPLORER
from prsrank.report.fit_report import conclusions
from prsrank.report.numbers import fixed_text, range_text

_INPUTS = ("log", "data", "features", "propensity", "out", "from_", "spark", "json")


_Log = Annotated[
    str | None,
    typer.Argument(metavar="LOG", help="A click log, as for audit; none needed with --from."),
]


@dataclass(frozen=True)
class _Inputs(ListInputs):
    """A click log, the features of its docs, and how to read them."""

    log: _Log = None  # type: ignore[assignment]


@dataclass(frozen=True)
class _Settings:
    """How to fit."""

    propensity: str | None = typer.Option(
        None,
        metavar="auto|METHOD|log|FILE|power:ETA",
        help="The propensities: those in the log, else the best method that the log "
        "identifies (auto, the default); one method; or given ones.",
    )
    temper: bool = typer.Option(
        True,
        help="Where the clicks contradict a curve that no experiment supports, use the power of "
        "it that they look like.",
    )
    holdout: str = typer.Option(
        "query:0.2",
        metavar="HOW",
        help="What to judge by: query:SHARE of the queries, time:SHARE of the latest "
        "sessions, or the randomised sessions (randomised).",
    )
    ranker: str = typer.Option(
        "lambdamart", help="{rankers}; not those that learn from the log itself."
    )
    weighting: str = typer.Option(
        "auto",
        help="auto: the best by held-out clicks; or {weightings}; not those that need labels.",
    )
    trials: int = typer.Option(
        12, min=1, max=10_000, help="Settings to try for each method, at most."
    )
    trees: int = typer.Option(
        300, min=1, max=1_000_000, help="The most trees of a ranker that grows trees."
    )
    seed: Seed = 0
    force: bool = typer.Option(False, "--force", help="Write the model even if it is too thin.")


def fit(
    context: typer.Context,
    inputs: _Inputs,
    settings: _Settings,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write everything to.")],
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="MANIFEST",
            help="Repeat the fit of a manifest.json. LOG, --data, --features and --propensity "
            "then say where the same inputs are now; other settings are the manifest's.",
        ),
    ] = None,
    spark: Spark = None,
    json: Json = False,
) -> None:
    r"""Go the whole way from a click log to a ranker with an estimate of its gain.

    Audit, split, propensities; posterior, PRS, IPS, naive and LightGBM's own training, tuned with
    as many trials each, one of them chosen by clicks that none learned from; evaluation against
    the logged ranking; a verdict: test online, no difference shown, or too thin. Then the model is
    trained again on all sessions and written with report.html and a manifest, from which the same
    fit can be repeated. Nothing is written if the audit finds errors; no model (and exit code 1)
    if the log is too thin, unless --force.

    With --spark the log stays on the executors, which count, tune and evaluate; parts, choices and
    estimates are the same.

    \b
    Examples:
      prsrank fit log.parquet --data synthetic:web10k:500 --out fitted
      prsrank fit searches.parquet --mapping searches.toml --holdout randomised --out fitted
      prsrank fit --from fitted/manifest.json --out again
      prsrank fit hdfs:///logs/ --mapping searches.toml --spark --out fitted
    """
    if from_ is not None:
        _refuse_settings(context, from_)
    elif inputs.log is None:
        raise InputError("give a LOG to fit, or a manifest to repeat (--from)")
    compile_ahead()
    with _telling() as tell:
        where: dict[str, Any] = {"out": out, "engine": find_runner(spark), "tell": tell}
        if from_ is None:
            result = _fitted(inputs, settings, **where)
        else:
            result = repeat_fit(from_, moved=_moved(inputs, settings), **where)
    if json:
        print_json(_summary(result))
    else:
        for line in _lines(result, repeated=from_ is not None):
            typer.echo(line)
    if not result.verdict.ships:
        raise typer.Exit(1)


def _fitted(inputs: _Inputs, settings: _Settings, **where: Any) -> FitResult:
    return fit_log(
        inputs.path,
        data=inputs.collection,
        features=inputs.table,
        mapping=inputs.meaning(),
        lists=inputs.how_listed,
        memory=inputs.memory,
        relevant_from=inputs.relevant_from,
        **{**vars(settings), "propensity": settings.propensity or "auto"},
        **where,
    )


def _moved(inputs: _Inputs, settings: _Settings) -> dict[str, str]:
    """Return where the inputs of a manifest are now, as far as it is said."""
    given = {name: getattr(inputs, name) for name in ("log", "data", "features")}
    given["propensity"] = settings.propensity
    return {role: path for role, path in given.items() if path is not None}


@contextmanager
def _telling() -> Iterator[Callable[[str], object]]:
    """Give a function that shows what is being done, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update


def _refuse_settings(context: typer.Context, manifest: Path) -> None:
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in _INPUTS and source is not None and source.name == "COMMANDLINE":
            option = name.replace("_", "-")
            raise InputError(f"--{option}: with --from the settings are those of {manifest}")


def _summary(result: FitResult) -> dict[str, Any]:
    return {
        "folder": str(result.folder),
        "audit": result.audit.verdict,
        "left_out_sessions": result.left_out,
        **result.manifest["chosen"],
        "next": result.verdict.next_command,
        "conclusions": conclusions(result),
        "evaluation": result.evaluation.to_json_dict(),
        "differs": list(result.differs),
    }


def _lines(result: FitResult, *, repeated: bool) -> Iterator[str]:
    yield from conclusions(result)
    yield ""
    codes = [f.code for f in result.audit.findings if f.severity == "warning"]
    yield f"audit: {result.audit.verdict}{': ' if codes else ''}{', '.join(codes)}"
    yield from _found(result)
    if repeated and not result.differs:
        yield "the same model, propensities and evaluation as before, bit for bit"
    model = "model, " if result.verdict.ships else ""
    pages = "report.html, explore.html" if (result.folder / EXPLORER).is_file() else "report.html"
    yield f"written: {result.folder}/ ({pages}, {model}evaluation.json, manifest.json, ...)"
    if not result.verdict.ships:
        yield "no model is written: --force writes it all the same"


def _found(result: FitResult) -> Iterator[str]:
    """Yield what a fit found."""
    for name, count in result.parts.counts().items():
        yield (
            f"{name + ':':<12} {count['sessions']:>9,} sessions {count['queries']:>9,} queries "
            f"{count['clicks']:>9,} clicks"
        )
    yield f"propensities: {result.propensities.how}"
    curve = result.propensities.curve
    if curve is not None:
        shown = ", ".join(f"{p:.2f}" for p in curve.propensity[:8])
        yield f"  {shown}{' ...' if curve.positions > 8 else ''} ({curve.verdict})"
    if result.propensities.check:
        yield f"  {'warning: ' if result.propensities.warning else ''}{result.propensities.check}"
    yield from _settings(result)
    yield ""
    yield from _estimates(result)
    yield from (f"warning: {warning}" for warning in result.evaluation.warnings)
    yield ""


def _settings(result: FitResult) -> Iterator[str]:
    for name, one in result.tuned.items():
        trees = "" if one.ranker.trees_ is None else f", trees {one.ranker.trees_}"
        yield f"{name}: {one.chosen.candidate}{trees} (best of {len(one.search.trials)})"


def _estimates(result: FitResult) -> Iterator[str]:
    found = result.evaluation.evaluation
    base, kind = result.baseline, found.narrowest
    less, what = f"less {base}", f"{METRIC} ({kind})"
    yield f"{what:<18} estimate  95 % interval     {less:>12}  95 % interval"
    for name in dict.fromkeys((LOGGED, base, *result.tuned)):
        one = found.estimate(name, METRIC, estimator=kind)
        line = f"{name:<18} {one.value:>8.4f}  {range_text(one.low, one.high)}"
        if name in result.tuned:
            gain = found.difference(name, METRIC, against=base, estimator=kind)
            line += f"  {fixed_text(gain.difference, '+.4f'):>11}  "
            line += range_text(gain.low, gain.high, "+.4f")
        yield line
