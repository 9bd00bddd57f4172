"""The command `prsrank fit`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from prsrank.cli.compile_ahead import compile_ahead
from prsrank.cli.inputs import LogInputs
from prsrank.cli.options import AnyLog, Json, Where, show, working
from prsrank.errors import InputError
from prsrank.evaluation.results import LOGGED
from prsrank.fit import FitResult, fit_log, repeat_fit
from prsrank.fit.outputs import EXPLORER
from prsrank.fit.plan import METRIC, FitSettings
from prsrank.report.fit_report import conclusions
from prsrank.report.numbers import fixed_text, range_text

_MOVED = ("log", "data", "features", "propensity")
_BESIDE_MANIFEST = ("out", "from_", "spark", "master", "json")


@dataclass(frozen=True)
class _Inputs(LogInputs):
    WITHOUT = ("memory",)  # it is of the settings

    log: AnyLog = None  # type: ignore[assignment]  # none is needed with --from


def fit(
    context: typer.Context,
    inputs: _Inputs,
    settings: FitSettings,
    where: Where,
    out: Path,
    from_: Path | None = None,
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

    Args:
        out (DIR): Folder to write everything to.
        from_ (MANIFEST): Repeat the fit of a manifest.json. LOG, --data, --features and
            --propensity then say where the same inputs are now; other settings are the manifest's.

    \b
    Examples:
      prsrank fit log.parquet --data synthetic:web10k:500 --out fitted
      prsrank fit searches.parquet --mapping searches.toml --holdout randomised --out fitted
      prsrank fit --from fitted/manifest.json --out again
      prsrank fit hdfs:///logs/ --mapping searches.toml --spark --master yarn --out fitted
    """
    moved = {} if from_ is None else _moved(context, from_)
    if from_ is None and inputs.log is None:
        raise InputError("give a LOG to fit, or a manifest to repeat (--from)")
    compile_ahead()
    with working("starting") as tell:
        request: dict[str, Any] = {"out": out, "engine": where.engine(), "tell": tell}
        if from_ is None:
            result = fit_log(
                inputs.path,
                data=inputs.collection,
                features=inputs.table,
                mapping=inputs.meaning(),
                **vars(settings),
                **request,
            )
        else:
            result = repeat_fit(from_, moved=moved, **request)
    show(_lines(result, repeated=from_ is not None), _summary(result), json=json)
    if not result.verdict.ships:
        raise typer.Exit(1)


def _moved(context: typer.Context, manifest: Path) -> dict[str, str]:
    """Return where the inputs of a manifest are now; nothing else can be said beside it."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    said = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    for name in said:
        if name not in (*_MOVED, *_BESIDE_MANIFEST):
            option = name.replace("_", "-")
            raise InputError(f"--{option}: with --from the settings are those of {manifest}")
    return {name: context.params[name] for name in _MOVED if name in said}


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
    yield from _findings(result)
    if repeated and not result.differs:
        yield "the same model, propensities and evaluation as before, bit for bit"
    model = "model, " if result.verdict.ships else ""
    pages = "report.html, explore.html" if (result.folder / EXPLORER).is_file() else "report.html"
    yield f"written: {result.folder}/ ({pages}, {model}evaluation.json, manifest.json, ...)"
    if not result.verdict.ships:
        yield "no model is written: --force writes it all the same"


def _findings(result: FitResult) -> Iterator[str]:
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
    for name, tuned in result.tuned.items():
        trees = "" if tuned.ranker.trees_ is None else f", trees {tuned.ranker.trees_}"
        yield f"{name}: {tuned.chosen.candidate}{trees} (best of {len(tuned.search.trials)})"
    yield ""
    yield from _estimates(result)
    yield from (f"warning: {warning}" for warning in result.evaluation.warnings)
    yield ""


def _estimates(result: FitResult) -> Iterator[str]:
    evaluation = result.evaluation.evaluation
    base, kind = result.baseline, evaluation.narrowest
    less, title = f"less {base}", f"{METRIC} ({kind})"
    yield f"{title:<18} estimate  95 % interval     {less:>12}  95 % interval"
    for name in dict.fromkeys((LOGGED, base, *result.tuned)):
        estimate = evaluation.estimate(name, METRIC, estimator=kind)
        line = f"{name:<18} {estimate.value:>8.4f}  {range_text(estimate.low, estimate.high)}"
        if name in result.tuned:
            gain = evaluation.difference(name, METRIC, against=base, estimator=kind)
            line += f"  {fixed_text(gain.difference, '+.4f'):>11}  "
            line += range_text(gain.low, gain.high, "+.4f")
        yield line
