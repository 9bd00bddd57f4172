r"""Whether the results bear out a claim: confirmed, not confirmed or contradicted, and why.

Every entry of the spec's `test` list (`prsrank.experiment.spec.Claim`) is an assertion for each
rival and metric: one paired comparison for each panel and point. Their two-sided p values are
corrected after Holm over all assertions of the experiment. Then

- *confirmed*: every comparison was run, goes the claimed way and is significant at 5 %;
- *contradicted*: at least one is significant the other way;
- *not confirmed*: anything else, such as too few queries to tell.

If in truth nothing differs, at most one claim in twenty is confirmed or contradicted by chance.
With a margin, "the claimed way" is: worse by less than the margin.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from prsrank.experiment.results import Results
from prsrank.experiment.spec import Claim, Point, direction, metric_title
from prsrank.experiment.statistics import (
    SIGNIFICANT,
    compare_queries,
    difference_text,
    p_text,
    per_query,
)
from prsrank.metrics.significance import PairedTest, holm
from prsrank.notebook.vega_lite import point_text
from prsrank.types import Floats

CONFIRMED, NOT_CONFIRMED, CONTRADICTED = "confirmed", "not confirmed", "contradicted"
SUPPORTS, AGAINST, UNDECIDED, NOT_RUN = "supports", "against", "undecided", "not run"


@dataclass(frozen=True, eq=False)
class Comparison:
    """One comparison of an assertion.

    Attributes:
        panel: where.
        point: the rival's point (and the winner's, unless the claim has `at`).
        sides: the winner's and the rival's value per query; None where it was not run.
        paired: winner - rival; None where it was not run.
        outcome: what it says of the claim: "supports", "against", "undecided" or "not run".
        corrected: p value after Holm over the whole experiment; NaN where there is none.
    """

    panel: str
    point: Point
    sides: tuple[Floats, Floats] | None = None
    paired: PairedTest | None = None
    outcome: str = NOT_RUN
    corrected: float = math.nan


@dataclass(frozen=True, eq=False)
class Assertion:
    """One entry of a spec's `test`, for one rival and one metric, held against the frame.

    Attributes:
        claim: the entry.
        rival: method or number that the winner is compared with.
        metric: metric compared.
        comparisons: one for each panel and point.
    """

    claim: Claim
    rival: str | float
    metric: str
    comparisons: tuple[Comparison, ...] = ()

    @property
    def lower_wins(self) -> bool:
        """Whether the smaller value is claimed to win."""
        return bool(self.claim.below or (self.claim.better and direction(self.metric) < 0))

    @cached_property
    def effect(self) -> PairedTest | None:
        """The difference winner - rival over all comparisons that were run, query by query."""
        sides = [comparison.sides for comparison in self.comparisons if comparison.sides]
        return compare_queries(*np.mean(sides, axis=0)) if sides else None

    def held_against(self, results: Results) -> "Assertion":
        """Return the assertion with its comparisons, whose p values are not corrected yet."""
        places = _places(self.claim, self.rival, results)
        return replace(self, comparisons=tuple(self._compared(*place, results) for place in places))

    def decided(self, p_values: Iterator[float]) -> "Assertion":
        """Return the assertion with corrected p values, and what each comparison says by them."""
        made = []
        for comparison, p_value in zip(self.comparisons, p_values, strict=False):
            outcome, paired = NOT_RUN, comparison.paired
            if paired is not None:
                sign = -1 if self.lower_wins else 1
                claimed_way = sign * paired.difference + self.claim.margin > 0
                outcome = SUPPORTS if claimed_way else AGAINST
                outcome = outcome if p_value <= SIGNIFICANT else UNDECIDED
            made.append(replace(comparison, outcome=outcome, corrected=p_value))
        return replace(self, comparisons=tuple(made))

    def text(self, titles: Mapping[str, str]) -> str:
        """Say what is claimed, with the titles of methods."""
        claim, rival = self.claim, self.rival
        name = titles.get(rival, rival) if isinstance(rival, str) else f"{rival:g}"
        if claim.at is not None and claim.winner == rival:
            name = "at other points"
        verb = "better than" if claim.better else "above" if claim.above else "below"
        text = titles.get(claim.winner, claim.winner)
        text += "" if claim.at is None else f" at {point_text(claim.at)}"
        text += f" {verb} {name} in {metric_title(self.metric)}"
        if claim.relative_to is not None:
            text += f", change since {point_text(claim.relative_to)}"
        return text + (f", margin {claim.margin:g}" if claim.margin else "")

    def evidence(self, titles: Mapping[str, str]) -> str:
        """Say what is claimed, how many comparisons bear it out, and by how much."""
        outcomes = [comparison.outcome for comparison in self.comparisons]
        text, effect = self.text(titles), self.effect
        if effect is None:
            return f"{text}: none of {len(outcomes)} comparisons was run"
        counts = [(outcomes.count(AGAINST), "against"), (outcomes.count(NOT_RUN), "not run")]
        more = "".join(f", {count} {words}" for count, words in counts if count)
        text += (
            f": {outcomes.count(SUPPORTS)} of {len(outcomes)} significantly so{more}; difference "
        )
        text += difference_text(effect)
        tested = [c.corrected for c in self.comparisons if not math.isnan(c.corrected)]
        if not tested:
            return f"{text}, no test ({effect.reason})"
        return f"{text}, d {effect.effect_size:.2f}, largest p {p_text(max(tested))}"

    def _compared(self, panel: str, point: Point, results: Results) -> Comparison:
        claim = self.claim

        def values(method: str, point: Point) -> Floats | None:
            here = results.measured(panel, method, point, self.metric)
            if here is None or claim.relative_to is None:
                return None if here is None else per_query(here)
            start = results.measured(panel, method, claim.relative_to, self.metric)
            return None if start is None else per_query(here) - per_query(start)

        first = values(claim.winner, point if claim.at is None else claim.at)
        second = values(self.rival, point) if isinstance(self.rival, str) else None
        if first is not None and not isinstance(self.rival, str):
            second = np.full(first.shape, float(self.rival))
        if first is None or second is None:
            return Comparison(panel, point)
        # a margin moves the null hypothesis to "worse by the margin"
        shift = -claim.margin if self.lower_wins else claim.margin
        paired = compare_queries(first, second, margin=shift)
        return Comparison(panel, point, (first, second), paired)


@dataclass(frozen=True)
class Verdict:
    """What becomes of a claim.

    Attributes:
        label: "confirmed", "not confirmed" or "contradicted".
        assertions: what it rests on.
    """

    label: str
    assertions: tuple[Assertion, ...] = ()

    def evidence(self, titles: Mapping[str, str]) -> str:
        """Return what the assertions say, in one line."""
        return "; ".join(each.evidence(titles) for each in self.assertions) + "."


def judge(results: Results) -> Verdict | None:
    """Judge the claim of an experiment by its results; None if it says nothing about them."""
    made = [
        Assertion(claim, rival, metric).held_against(results)
        for claim in results.spec.test
        for rival in claim.rivals
        for metric in claim.metric
    ]
    if not any(each.comparisons for each in made):
        return None
    tests = [comparison.paired for each in made for comparison in each.comparisons]
    corrected = iter(holm([math.nan if test is None else test.p_value for test in tests]).tolist())
    assertions = tuple(each.decided(corrected) for each in made)
    outcomes = {comparison.outcome for each in assertions for comparison in each.comparisons}
    if AGAINST in outcomes:
        return Verdict(CONTRADICTED, assertions)
    return Verdict(CONFIRMED if outcomes == {SUPPORTS} else NOT_CONFIRMED, assertions)


def _places(claim: Claim, rival: str | float, results: Results) -> Iterator[tuple[str, Point]]:
    """Return the panels and points of a comparison."""
    needed = claim.methods & {claim.winner, rival}
    both = [panel for panel in results.panels() if needed <= set(results.methods(panel))]
    panels = claim.panels or both or [""]  # where a method was not measured, nothing is run
    points, fixed = results.spec.axis.points, claim.fixed_points
    others = claim.points or [point for point in points if point not in fixed]
    measured = [p for p in others if p in points] if {*fixed} <= {*points} else []
    return product(panels, measured)
