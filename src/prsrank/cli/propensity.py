"""The command `prsrank propensity`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prsrank.cli.arguments import Fold, Json, Seed, print_json, working
from prsrank.cli.log_options import (
    AnyLog,
    Column,
    EngineName,
    MappingFile,
    Master,
    Memory,
    load_clicks,
    log_mapping,
)
from prsrank.errors import InputError

if TYPE_CHECKING:
    from prsrank.propensity.curve import Propensities


def propensity(
    log: AnyLog,
    method: Annotated[
        list[str],
        typer.Option(
            help="known, randomised, swap, harvest, harvest-chain or regression-em. "
            "Given several times: all are plotted, the first is the result."
        ),
    ],
    data: Annotated[
        str | None, typer.Option(metavar="DATA", help="Features for regression-em.")
    ] = None,
    eta: Annotated[float, typer.Option(help="For the method known: p_k = (1/k)^eta.")] = 1.0,
    positions: Annotated[
        int | None, typer.Option(min=1, help="Estimate positions 1 to this one; default all.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="Fit the curve to a shape: monotone or power.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A curve for each value of a column.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the curve as JSON, for train.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: .html, .png or .svg.")
    ] = None,
    column: Column = None,
    mapping: MappingFile = None,
    memory: Memory = None,
    engine: EngineName = "local",
    master: Master = None,
    json: Json = False,
    fold: Fold = 1,
    seed: Seed = 0,
) -> None:
    r"""Estimate the observation propensity of each position from a click log.

    \b
    Examples:
      prsrank propensity log.parquet --method randomised --out propensity.json
      prsrank propensity log.parquet --method harvest --method regression-em --plot curves.png
    """
    from prsrank.spark import find_engine

    features = _features(data, fold)
    settings = {"positions": positions, "shape": shape, "eta": eta}
    estimators = {name: _estimator(name, settings) for name in method}
    curves: dict[str, Propensities] = {}
    with find_engine(engine, master=master) as runner:
        if runner.name == "local":
            contexts = None if context is None else [context]
            clicks = load_clicks(
                log, column=column, mapping=mapping, memory=memory, contexts=contexts
            )
            for name, chosen in estimators.items():
                with working(f"estimating: {name}"):
                    curves[name] = _estimate(chosen, clicks, features, context, seed)
        elif context is not None:
            raise InputError("--context is for the local engine")
        else:
            with runner.open_log(log, mapping=log_mapping(column, mapping)) as events:
                for name, chosen in estimators.items():
                    with working(f"estimating on {runner.name}: {name}"):
                        curves[name] = runner.propensities(
                            events, chosen, dataset=features, seed=seed
                        )
    result = curves[method[0]]
    if out is not None:
        result.save(out)
    if plot is not None:
        from prsrank.report.propensity_figure import plot_propensities

        plot_propensities(curves, plot)
    if json:
        print_json(result.to_json_dict())
    else:
        for name, curve in curves.items():
            _show(name, curve)


def _features(data: str | None, fold: int) -> Any:
    if data is None:
        return None
    from prsrank.data.collections import load_dataset

    return load_dataset(data, "train", fold=fold)


def _estimator(name: str, settings: dict[str, Any]) -> Any:
    from prsrank.propensity.estimators import estimator

    chosen: Any = estimator(name)
    known = {key: value for key, value in settings.items() if hasattr(chosen, key)}
    if settings["shape"] is not None and "shape" not in known:
        raise InputError(f"the method {name} takes no shape")
    return replace(chosen, **known)


def _estimate(
    chosen: Any, log: Any, features: Any, context: str | None, seed: int
) -> "Propensities":
    from prsrank.propensity.context import estimate_by_context

    if context is None:
        result: Propensities = chosen.estimate(log, dataset=features, seed=seed)
        return result
    return estimate_by_context(log, chosen, context, dataset=features, seed=seed)


def _show(name: str, curve: "Propensities") -> None:
    typer.echo(f"{name}: {curve.verdict}")
    typer.echo("position  propensity        95 % interval      clicks")
    for k in range(min(len(curve.propensity), 20)):
        typer.echo(
            f"{k + 1:>8}  {curve.propensity[k]:10.4f}  "
            f"{curve.low[k]:9.4f} to {curve.high[k]:7.4f}  {curve.clicks[k]:>10,}"
        )
    if len(curve.propensity) > 20:
        typer.echo(f"     ... and {len(curve.propensity) - 20} more (--json shows all)")
