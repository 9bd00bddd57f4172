"""The command `prsrank sensitivity`."""

from pathlib import Path
from typing import Any

from prsrank.cli.inputs import FeaturedLog
from prsrank.cli.options import Json, parse_values, refuse_other_files, show, working
from prsrank.errors import InputError
from prsrank.evaluation.sensitivity import DEFAULT_VALUES, study_log
from prsrank.files import atomic_output, write_json
from prsrank.fit.manifest import judged_model
from prsrank.logs.split import Split
from prsrank.propensity.curve_of import parse_propensity
from prsrank.rankers.base import load_ranker, ranker_class
from prsrank.rankers.feature_order import features_for
from prsrank.report.sensitivity_section import report_lines, write_chart, write_page

_PAGE, _RESULT = "report.html", "sensitivity.json"
_CHARTS = ("sensitivity.svg", "sensitivity.png")
_QUERIES = Split("query", 0.2)
_RANKER, _TREES = "lambdamart", 100  # one is trained for each value: fewer trees than train's


def sensitivity(
    inputs: FeaturedLog,
    out: Path,
    model: str | None = None,
    try_: list[str] | None = None,
    propensity: str | None = None,
    json: Json = False,
) -> None:
    r"""Show how a model's ranking and estimated gain move under other assumptions.

    The model is trained by prs with the propensities as given, no noise, no trust and gamma 1,
    and judged on held-out queries. Then one thing is assumed otherwise: the position bias (eta:
    the propensities to this power), click noise, trust in the top, or the clip gamma. The model
    is judged under each, and a new one trained and judged under each, and it is said where the gain
    turns into a loss. Writes report.html, sensitivity.svg, sensitivity.png and sensitivity.json.

    A folder that fit wrote stands for its inputs: then its model is judged on what it held out,
    with its propensities.

    Args:
        out (DIR): Folder for the chart and the numbers.
        model (MODEL): A model that did not learn from the held-out part, to judge and to retrain.
            Default: that of the fit, if LOG is its folder, else one is trained.
        try_ (NAME=VALUE): A value to assume of {assumptions}; may be repeated. Default: several of
            each.
        propensity (FILE|power:ETA): The propensities: a file that 'prsrank propensity --out' wrote,
            or (1/k)^ETA. Default: those in the log.

    \b
    Examples:
      prsrank sensitivity fitted --out study
      prsrank sensitivity log.parquet --data synthetic:web10k:500 --propensity power:1 --out study
    """
    refuse_other_files(out, _PAGE, _RESULT, *_CHARTS)
    run, values = inputs.run, _values(try_)
    split = _QUERIES if run is None else run.split
    named = propensity or inputs.curve
    curve = None if named is None else parse_propensity(named)
    path = model if model is not None or run is None else judged_model(inputs.log)
    clicks, lists = inputs.read()
    loaded, seen = None, False
    ranker, settings = _RANKER, ranker_class(_RANKER).accepted(trees=_TREES, seed=split.seed)
    if path is not None:
        loaded = load_ranker(path)
        lists, ranker, settings = features_for(loaded, lists), loaded.name, loaded.get_params()
        # what a fit held out its model has not seen; lists by session are held out by other names
        by_session = run is None or inputs.meaning().lists == "session"
        seen = by_session and loaded.learned_from(inputs.path)
    with working("training and judging"):
        study = study_log(
            clicks,
            lists,
            curve,
            model=loaded,
            ranker=ranker,
            settings=settings,
            hold_out_by=(split.way, split.share),
            values=values,
            seed=split.seed,
            trained_on=str(path) if seen else None,
        )
    with atomic_output(out, folder=True) as draft:
        write_page(study, draft / _PAGE, log=inputs.path)
        for chart in _CHARTS:
            write_chart(study, draft / chart)
        write_json(draft / _RESULT, study.to_json_dict())
    lines = [*report_lines(study), f"{out}: {', '.join((_PAGE, *_CHARTS, _RESULT))}"]
    show(lines, study.to_json_dict(), json=json)


def _values(assignments: list[str] | None) -> dict[str, Any]:
    """Return the values to try: those given, else the usual ones."""
    values: dict[str, list[float]] = {}
    for kind, value in parse_values(assignments, "--try"):
        if kind not in DEFAULT_VALUES or not isinstance(value, int | float):
            names = ", ".join(DEFAULT_VALUES)
            raise InputError(f"--try takes NAME=NUMBER, not '{kind}={value}'; names are: {names}")
        values.setdefault(kind, []).append(float(value))
    return {**DEFAULT_VALUES, **values}
