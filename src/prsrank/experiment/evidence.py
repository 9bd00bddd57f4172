"""The comparisons that a verdict rests on, in words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from prsrank.experiment.statistics import compare_queries
from prsrank.experiment.verdicts import AGAINST, SUPPORTS, Comparison
from prsrank.experiment.words import metric_title, p_text, signed_text
from prsrank.notebook.vega_lite import point_text

_MOST_LISTED = 3


def evidence(comparisons: Sequence[Comparison], titles: Mapping[str, str]) -> str:
    """Return the figures of all comparisons in a sentence.

    Of a claim about several metrics, the first is told in full and the others are counted.

    Args:
        comparisons: what a verdict rests on.
        titles: how methods are called, where not by their name.
    """
    return f"{'; '.join(_parts(comparisons, titles))}."


def _parts(comparisons: Sequence[Comparison], titles: Mapping[str, str]) -> Iterator[str]:
    if not comparisons:
        yield "nothing was measured that the claim could be held against"
    for _, of_rival in groupby(comparisons, key=lambda item: (item.claim, item.rival)):
        by_metric = [list(group) for _, group in groupby(of_rival, key=lambda item: item.metric)]
        yield _in_full(by_metric[0], titles)
        if by_metric[1:]:
            yield _counted(by_metric[1:])


def _in_full(members: Sequence[Comparison], titles: Mapping[str, str]) -> str:
    run = [item for item in members if item.paired is not None]
    if not run:
        words = _wording(members[0], titles, holds=True)
        return f"{words}: none of {len(members)} comparisons was run"
    text = _wording(run[0], titles, holds=len(run) > 1 or run[0].claimed_way)
    if len(run) > 1:
        panels = len({item.panel for item in run})
        text += f" at {_share(run)} points{f' ({panels} panels)' if panels > 1 else ''}"
        text += f", significantly at {_count(run, SUPPORTS)}"
    text += f", {_average(run)}, {_largest_p(run)}"
    against = [item for item in run if item.outcome == AGAINST]
    if against and len(run) > 1:
        text += f"; significantly the other way {_listed(against)}"
    if len(run) < len(members):
        text += f"; {len(members) - len(run)} of {len(members)} comparisons not run"
    return text


def _counted(groups: Sequence[Sequence[Comparison]]) -> str:
    metrics = " and ".join(metric_title(members[0].metric) for members in groups)
    every = [item for members in groups for item in members]
    against = _count(every, AGAINST)
    other = f", {against} significantly the other way" if against else ""
    return f"in {metrics} {_share(every)} so, {_count(every, SUPPORTS)} significantly{other}"


def _share(members: Sequence[Comparison]) -> str:
    return f"{sum(item.claimed_way for item in members)} of {len(members)}"


def _count(members: Sequence[Comparison], outcome: str) -> int:
    return sum(item.outcome == outcome for item in members)


def _wording(comparison: Comparison, titles: Mapping[str, str], *, holds: bool) -> str:
    """Say what is claimed, or its contrary if it does not hold."""
    claim = comparison.claim
    winner, rival = comparison.names(titles)
    if claim.at is not None and claim.winner == comparison.rival:
        rival = "that at other points"
    if claim.than_panel:
        rival = f"{rival} ({claim.than_panel})"
    worse, better = ("above", "below") if comparison.lower_wins else ("below", "above")
    if claim.margin:
        way = f"{'not ' if holds else ''}{worse} {rival} by more than {claim.margin:g}"
    else:
        way = f"{better if holds else f'not {better}'} {rival}"
    since = "" if claim.relative_to is None else f" (change since {point_text(claim.relative_to)})"
    return f"{winner} {way} in {metric_title(comparison.metric)}{since}"


def _average(run: Sequence[Comparison]) -> str:
    whole = compare_queries(*np.mean([item.sides for item in run if item.sides], axis=0))
    text = f"{'mean ' if len(run) > 1 else ''}difference {signed_text(whole.difference)}"
    if math.isnan(whole.low):
        return text
    effect = f", d {whole.effect_size:.2f}" if math.isfinite(whole.effect_size) else ""
    return f"{text} (95 % {signed_text(whole.low)} to {signed_text(whole.high)}){effect}"


def _largest_p(run: Sequence[Comparison]) -> str:
    tested = [item.corrected for item in run if not math.isnan(item.corrected)]
    if tested:
        return f"{'largest ' if len(run) > 1 else ''}corrected p {p_text(max(tested))}"
    return f"no test ({next(item.paired.reason for item in run if item.paired)})"


def _listed(against: Sequence[Comparison]) -> str:
    listed = [
        f"{' '.join(filter(None, (item.panel, point_text(item.point)))) or 'here'} "
        f"({signed_text(item.paired.difference)}, p {p_text(item.corrected)})"
        for item in against[:_MOST_LISTED]
        if item.paired is not None
    ]
    more = len(against) - _MOST_LISTED
    return f"at {', '.join(listed)}{f' and {more} more' if more > 0 else ''}"
