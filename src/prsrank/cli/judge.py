"""The command `prsrank judge`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.cli.inputs import FeaturedLog
from prsrank.cli.options import Json, show, working
from prsrank.errors import InputError, nearest_name
from prsrank.evaluation.judgements import JUDGEMENT_FORMATS, write_judgements
from prsrank.evaluation.judgements import judge as judge_log
from prsrank.propensity.curve import Propensities
from prsrank.propensity.verdict import Status, has_few_clicks

_EVIDENCE = 1.0
"""Docs that were seen less often than this are left out."""


def judge(
    inputs: FeaturedLog,
    out: Path,
    to: str = "parquet",
    propensity: str | None = None,
    grades: str | None = None,
    json: Json = False,
) -> None:
    r"""Turn clicks into judgements: how relevant each doc is to its query, whatever its position.

    A doc's rating comes from P(click once seen), the expectation given its own clicks, how often
    it was seen at its positions, and what its features (or, without any, the ranks it was shown
    at) promise. Parquet has it with its interval, impressions and clicks.

    Args:
        out (FILE): Where to write the judgements.
        to (FORMAT): {judgements}.
        grades (A,B,...): P(click once seen) from which on a doc is rated 1, 2, ... Default: an
            eighth, a quarter and half of what the best 1 % of the docs reach.
        propensity (FILE|power:ETA): The propensities as far as known. Default: those in the log,
            else the best estimate that it allows.

    \b
    Examples:
      prsrank judge log.parquet --features features.parquet --out judgements.parquet
      prsrank judge log.parquet --propensity power:1 --to quepid --out ratings.csv
      prsrank judge fitted --to opensearch --out judgements.json
    """
    if to not in JUDGEMENT_FORMATS:
        raise InputError(f"there is no format '{to}'{nearest_name(to, JUDGEMENT_FORMATS)}")
    thresholds = None if grades is None else _numbers(grades)
    featured = inputs.collection or inputs.table or inputs.meaning().features
    clicks, lists = inputs.read() if featured else (inputs.clicks(), None)
    estimate = inputs.curve_of(clicks, propensity or inputs.curve)
    with working("judging"):
        judged = judge_log(clicks, estimate.curve, lists, thresholds=thresholds)
    kept = judged.select(judged.seen >= _EVIDENCE)
    if not len(kept.rating):
        raise InputError(f"{inputs.path}: no doc was seen once")
    write_judgements(kept, out, to)
    notice = curve_notice(estimate.curve)
    summary: dict[str, Any] = {
        "judgements": len(kept.rating),
        "left_out": len(judged.rating) - len(kept.rating),
        "thresholds": list(kept.thresholds),
        "docs_by_rating": np.bincount(kept.rating, minlength=len(kept.thresholds) + 1).tolist(),
        "click_model": judged.click_model,
        "curve": estimate.how,
        "notice": notice,
        "out": str(out),
    }
    show(_lines(summary, to), summary, json=json)


def curve_notice(curve: Propensities) -> str:
    """Return a line for a curve that has next to no evidence, "" for any other.

    Everything below position 2 hangs on the step to it: a curve with few clicks there is a
    guess, and the posterior takes it for known.
    """
    estimated = curve.verdict.status in (Status.WEAK, Status.UNKNOWN)
    if not estimated or curve.positions < 2 or not has_few_clicks(curve.clicks)[1]:
        return ""
    return (
        "notice: the log tells next to nothing of the curve, not even at position 2; ratings and "
        "intervals take it for right: judge more sessions, or give --propensity"
    )


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"--grades takes numbers between commas, not '{text}'") from error


def _lines(summary: dict[str, Any], to: str) -> Iterator[str]:
    yield summary["click_model"]
    yield "rating  P(click once seen)      docs"
    starts = (0.0, *summary["thresholds"])
    for rating, docs in enumerate(summary["docs_by_rating"]):
        yield f"{rating:>6}  from {starts[rating]:<14.4f} {docs:>9,}"
    if summary["left_out"]:
        yield f"left out: {summary['left_out']:,} docs that were hardly seen"
    yield f"curve: {summary['curve']}"
    if summary["notice"]:
        yield summary["notice"]
    yield f"{summary['out']}: {summary['judgements']:,} judgements as {to}"
