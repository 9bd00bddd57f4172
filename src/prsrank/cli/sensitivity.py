"""The command `prsrank sensitivity`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prsrank.cli.arguments import Json, Log, NamedData, Seed, print_json, working
from prsrank.errors import InputError

if TYPE_CHECKING:
    from prsrank.evaluation.sensitivity import Sensitivity
    from prsrank.rankers.base import Ranker

_RESULT = "sensitivity.json"


def _values(kind: str) -> Any:
    return typer.Option(f"--{kind}", metavar="VALUE", help=f"A value of {kind} to try; repeatable.")


def sensitivity(
    log: Log,
    data: NamedData,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the chart and the numbers.")],
    propensity: Annotated[
        str | None,
        typer.Option(metavar="FILE|power:ETA", help="The propensities; default: those in the log."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="A model that did not learn from the held-out part, to judge and to retrain. "
            "Default: one is trained.",
        ),
    ] = None,
    ranker: Annotated[
        str, typer.Option(help="The ranker to train, such as linear.")
    ] = "lambdamart",
    trees: Annotated[int, typer.Option(min=1, help="Trees of a trained lambdamart.")] = 100,
    holdout: Annotated[
        str, typer.Option(metavar="query:SHARE|time:SHARE", help="What to judge by.")
    ] = "query:0.2",
    metric: Annotated[str, typer.Option(help="dcg@K, dcg or arp.")] = "dcg@10",
    eta: Annotated[list[float] | None, _values("eta")] = None,
    noise: Annotated[list[float] | None, _values("noise")] = None,
    trust: Annotated[list[float] | None, _values("trust")] = None,
    gamma: Annotated[list[float] | None, _values("gamma")] = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    r"""Show how a model's ranking and estimated gain move under other assumptions.

    The model is trained by prs with the propensities as given, no noise, no trust and gamma 1,
    and judged on held-out queries. Then one thing is assumed otherwise: the position bias (eta:
    the propensities to this power), click noise, trust in the top, or the clip gamma. The model
    is judged under each, and a new one trained and judged under each. Writes sensitivity.svg,
    sensitivity.png and sensitivity.json.

    \b
    Example:
      prsrank sensitivity log.parquet --data synthetic:web10k:500 --propensity power:1 --out study
    """
    from prsrank.cli.evaluate import trained_on
    from prsrank.data.collections import open_collection
    from prsrank.evaluation.log_study import study_log
    from prsrank.logs.held_out import parse_hold_out
    from prsrank.logs.reading import read_click_log
    from prsrank.propensity.curve import parse_propensity
    from prsrank.rankers.base import load_ranker
    from prsrank.report.sensitivity_section import report_lines

    _check_folder(out)
    hold_out = parse_hold_out(holdout)
    curve = None if propensity is None else parse_propensity(propensity)
    loaded = None if model is None else load_ranker(model)
    name, settings = _training(loaded, ranker, trees, seed)
    with working(f"reading {data} and {log}"):
        clicks = read_click_log(log)
        lists = open_collection(data).everything()
    with working("training and judging"):
        study = study_log(
            clicks,
            lists,
            curve,
            model=loaded,
            ranker=name,
            settings=settings,
            hold_out_by=hold_out,
            values=_given(eta=eta, noise=noise, trust=trust, gamma=gamma),
            metric=metric,
            seed=seed,
            trained_on=None if loaded is None else trained_on({str(model): loaded}, log),
        )
    _write(study, out)
    if json:
        print_json(study.to_json_dict())
        return
    for line in report_lines(study):
        typer.echo(line)
    typer.echo(f"{out}: sensitivity.svg, sensitivity.png, {_RESULT}")


def _given(**values: list[float] | None) -> dict[str, Sequence[float]]:
    from prsrank.evaluation.assumptions import DEFAULT_VALUES

    return {kind: chosen or DEFAULT_VALUES[kind] for kind, chosen in values.items()}


def _training(
    loaded: "Ranker | None", ranker: str, trees: int, seed: int
) -> tuple[str, dict[str, Any]]:
    """Return the ranker to train and its parameters: those of the loaded model, if any."""
    from prsrank.rankers.base import ranker_class

    if loaded is not None:
        return loaded.name, loaded.get_params()
    known = ranker_class(ranker)().get_params()
    return ranker, {k: v for k, v in (("trees", trees), ("seed", seed)) if k in known}


def _check_folder(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()) and not (out / _RESULT).exists():
        raise InputError(f"{out}: is a folder with other things in it")


def _write(study: "Sensitivity", out: Path) -> None:
    from prsrank.files import atomic_output, write_json
    from prsrank.report.sensitivity_section import write_chart

    with atomic_output(out, folder=True) as draft:
        for kind in ("svg", "png"):
            write_chart(study, draft / f"sensitivity.{kind}")
        write_json(draft / _RESULT, study.to_json_dict())
