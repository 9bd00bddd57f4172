"""The figures that a verdict rests on, in words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from prsrank.experiment.comparisons import AGAINST, SUPPORTS, Group, Judged
from prsrank.experiment.metric_names import metric_title
from prsrank.experiment.number_texts import p_text, signed_text
from prsrank.experiment.statistics import compare_queries
from prsrank.report.numbers import point_text


def evidence(groups: Sequence[Group], *, titles: Mapping[str, str] | None = None) -> str:
    """Return the figures of all comparisons in a sentence.

    Of a claim about several metrics, the first is told in full and the others are counted.

    Args:
        groups: the comparisons.
        titles: how methods are called, where not by their name.
    """
    return f"{'; '.join(_parts(groups, titles or {}))}."


def _parts(groups: Sequence[Group], titles: Mapping[str, str]) -> Iterator[str]:
    told = [group for group in groups if group.members]
    if not told:
        yield "nothing was measured that the claim could be held against"
    for _, same in groupby(told, key=lambda g: (id(g.members[0].claim), g.members[0].rival)):
        first, *others = same
        yield _in_full(first, titles)
        if others:
            yield _counted(others)


def _in_full(group: Group, titles: Mapping[str, str]) -> str:
    run = [one for one in group.members if one.comparison is not None]
    if not run:
        words = _wording(group.members[0], titles, holds=True)
        return f"{words}: none of {len(group.members)} comparisons was run"
    words = _wording(run[0], titles, holds=len(run) > 1 or run[0].claimed_way)
    if len(run) > 1:
        words += f" {_count(run)}"
    text = f"{words}, {_average(group)}, {_largest_p(run)}"
    against = [one for one in run if one.outcome == AGAINST]
    if against and len(run) > 1:
        text += f"; significantly the other way {_listed(against)}"
    if len(run) < len(group.members):
        text += f"; {len(group.members) - len(run)} of {len(group.members)} comparisons not run"
    return text


def _counted(groups: Sequence[Group]) -> str:
    metrics = " and ".join(metric_title(group.members[0].metric) for group in groups)
    members = [one for group in groups for one in group.members]
    right = sum(one.claimed_way for one in members)
    significant = sum(one.outcome == SUPPORTS for one in members)
    against = sum(one.outcome == AGAINST for one in members)
    other = f", {against} significantly the other way" if against else ""
    return f"in {metrics} {right} of {len(members)} so, {significant} significantly{other}"


def _wording(one: Judged, titles: Mapping[str, str], *, holds: bool) -> str:
    """Say what is claimed, or its contrary if it does not hold."""
    claim = one.claim
    winner, rival = sides(one, titles)
    if claim.at is not None and claim.winner == one.rival:
        rival = "that at other points"
    if claim.than_panel is not None:
        rival = f"{rival} ({claim.than_panel})"
    worse, better = ("above", "below") if claim.lower_wins(one.metric) else ("below", "above")
    if claim.margin:
        way = f"{'not ' if holds else ''}{worse} {rival} by more than {claim.margin:g}"
    else:
        way = f"{better if holds else f'not {better}'} {rival}"
    since = "" if claim.relative_to is None else f" (change since {point_text(claim.relative_to)})"
    return f"{winner} {way} in {metric_title(one.metric)}{since}"


def sides(one: Judged, titles: Mapping[str, str]) -> tuple[str, str]:
    """Return what is compared with what, as text calls them."""
    claim = one.claim
    winner = titles.get(claim.winner, claim.winner)
    rival = titles.get(one.rival, one.rival) if isinstance(one.rival, str) else f"{one.rival:g}"
    return winner if claim.at is None else f"{winner} at {point_text(claim.at)}", rival


def _count(run: Sequence[Judged]) -> str:
    right = sum(one.claimed_way for one in run)
    significant = sum(one.outcome == SUPPORTS for one in run)
    panels = len({one.panel for one in run})
    what = "points" if panels == 1 else f"points ({panels} panels)"
    return f"at {right} of {len(run)} {what}, significantly at {significant}"


def _largest_p(run: Sequence[Judged]) -> str:
    tested = [one.corrected for one in run if not math.isnan(one.corrected)]
    if tested:
        name = "corrected" if len(run) == 1 else "largest corrected"
        return f"{name} p {p_text(max(tested))}"
    reason = next(one.comparison.reason for one in run if one.comparison is not None)
    return f"no test ({reason})"


def _average(group: Group) -> str:
    shapes = {side.shape for sides in group.sides for side in sides}
    if len(shapes) > 1:
        differences = [one.comparison.difference for one in group.members if one.comparison]
        return f"mean difference {signed_text(float(np.mean(differences)))}"
    whole = compare_queries(*np.mean(group.sides, axis=0))
    name = "difference" if len(group.sides) == 1 else "mean difference"
    if math.isnan(whole.low):
        return f"{name} {signed_text(whole.difference)}"
    interval = f"(95 % {signed_text(whole.low)} to {signed_text(whole.high)})"
    effect = f", d {whole.effect_size:.2f}" if math.isfinite(whole.effect_size) else ""
    return f"{name} {signed_text(whole.difference)} {interval}{effect}"


def _listed(against: Sequence[Judged], most: int = 3) -> str:
    listed = [
        f"{' '.join(filter(None, (one.panel, point_text(one.point)))) or 'here'} "
        f"({signed_text(one.comparison.difference)}, p {p_text(one.corrected)})"
        for one in against[:most]
        if one.comparison is not None
    ]
    more = f" and {len(against) - most} more" if len(against) > most else ""
    return f"at {', '.join(listed)}{more}"
