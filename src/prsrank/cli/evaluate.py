"""The command `prsrank evaluate`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from prsrank.cli.inputs import ModelInputs, curve_file, run_of
from prsrank.cli.options import Json, Model, show, working
from prsrank.errors import InputError
from prsrank.evaluation.log_evaluation import DEFAULT_METRICS, evaluate_on_log
from prsrank.evaluation.results import LOGGED
from prsrank.fit.manifest import judged_model
from prsrank.logs.features import known_lists
from prsrank.metrics import ranking
from prsrank.propensity.curve_of import parse_propensity
from prsrank.rankers.base import Ranker, load_ranker
from prsrank.rankers.feature_order import features_for
from prsrank.report.evaluation_section import report_lines

_OF_CLICKS = ("column", "mapping", "features", "propensity", "against", "context")
"""Options that have no meaning without a log."""

_BY_LABELS = ("ndcg@5", "ndcg@10", "map", "arp", "mrr")


def evaluate(
    model: Model,
    inputs: ModelInputs,
    split: str | None = None,
    metric: list[str] | None = None,
    propensity: str | None = None,
    against: list[str] | None = None,
    context: str | None = None,
    json: Json = False,
) -> None:
    r"""Measure a ranker on labelled lists, or on the clicks of a held-out log.

    Labels: by binarised relevance; NDCG with discount 1 / log2(1 + rank); ARP as in the PRS
    paper (0-based ranks of relevant docs, divided by the list's length; lower is better). Ties
    count by their expectation. Lists without a relevant doc are skipped and counted.

    Clicks (--log): what the ranker's DCG, WMRR and ARP would have been on the logged sessions,
    against the logged ranking and other models: inverse propensity scoring (ips), self-normalised
    (snips), clipped and doubly robust (dr), with intervals over queries that know how uncertain
    the curve is, and a warning where the clicks cannot bear the estimate. A folder that fit wrote
    stands for what it held out.

    Args:
        split: train, validation or test. Default: test; with --log, all lists of the log.
        metric: May be repeated, and end in @K. On labels: {metrics}. On clicks: {click_metrics}.
        against (MODEL): Compare with this model too.
        context (COLUMN): Estimate by the values of a context too.
        propensity (FILE|power:ETA): The propensities: a file that 'prsrank propensity --out' wrote,
            or (1/k)^ETA. Default: those in the log.

    \b
    Examples:
      prsrank evaluate fitted
      prsrank evaluate model --data synthetic:web10k:500
      prsrank evaluate model --data MQ2008 --log held_out.parquet --propensity p.json --against naive
    """
    model, inputs, fitted_curve = _beside(model, inputs)
    if inputs.log is None:
        values = vars(inputs) | {"propensity": propensity, "against": against, "context": context}
        for name in _OF_CLICKS:
            if values[name]:
                raise InputError(
                    f"--{name} is for estimates from clicks: give a held-out --log too"
                )
        _by_labels(load_ranker(model), inputs, split or "test", metric or _BY_LABELS, json)
        return
    named = _named([model, *(against or [])])
    rankers = {name: load_ranker(path) for name, path in named.items()}
    propensity = propensity or fitted_curve
    curve = None if propensity is None else parse_propensity(propensity)
    clicks, whole = inputs.read(*([] if context is None else [context]), split=split)
    lists = known_lists(clicks, whole)
    if curve is None and clicks.ranking_propensities is None:
        raise InputError("the log has no propensities: give --propensity FILE or power:ETA")
    if not lists.lists:
        clicks.doc_rows(whole)  # names a query that is missing
    with working("estimating"):
        result = evaluate_on_log(
            clicks,
            lists,
            curve,
            {n: r.score(features_for(r, lists).features) for n, r in rankers.items()},
            against=[LOGGED, *list(rankers)[1:]],
            metrics=metric or DEFAULT_METRICS,
            context=context,
            trained_on=next((n for n, r in rankers.items() if r.learned_from(inputs.path)), None),
        )
    show(report_lines(result), result.to_json_dict(), json=json)


def _beside(model: str, inputs: ModelInputs) -> tuple[str, ModelInputs, str | None]:
    """Return model and inputs with what is not given taken from a fit, and its propensities.

    What the fit held out judges the ranker that has not learned from it.
    """
    if run_of(model) is None:
        return model, inputs, None
    curve, held_out = curve_file(model), Path(model, "held_out")
    if inputs.log or inputs.data or inputs.features or not held_out.is_dir():
        return model, inputs.beside(model), curve
    log, lists = str(held_out / "log.parquet"), str(held_out / "lists")
    return str(judged_model(model)), replace(inputs, log=log, data=lists), curve


def _by_labels(
    ranker: Ranker, inputs: ModelInputs, split: str, metrics: Sequence[str], json: bool
) -> None:
    measures = {name: ranking.metric(name) for name in metrics}
    lists = inputs.dataset(split)
    if lists is None:
        raise InputError("give a data set with labels (--data), or a held-out log (--log)")
    scores = ranker.score(features_for(ranker, lists).features)
    values = {
        name: ranking.average(measure(lists.relevance, scores, lists.offsets))
        for name, measure in measures.items()
    }
    first = values[metrics[0]]
    lines = [f"{name:<8} {value.mean:8.4f}" for name, value in values.items()]
    lines.append(f"over {first.lists:,} lists; {first.skipped:,} without a relevant doc skipped")
    means = {name: value.mean for name, value in values.items()}
    show(lines, means | {"lists": first.lists, "skipped": first.skipped}, json=json)


def _named(models: Sequence[str]) -> dict[str, str]:
    """Name models by their folder, or by the whole path where that would not tell them apart."""
    if len(set(models)) < len(models):
        raise InputError("a model cannot be compared with itself")
    names = [Path(model).name or model for model in models]
    clear = len(set(names)) == len(names) and "logged" not in names
    return dict(zip(names if clear else [f"model {m}" for m in models], models, strict=True))
