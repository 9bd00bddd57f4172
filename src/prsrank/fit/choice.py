"""Which of the methods of a fit is shipped: chosen by clicks that none of them learned from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prsrank.evaluation.results import Difference
from prsrank.fit.log import LogParts
from prsrank.fit.plan import METRIC, Plan
from prsrank.fit.tuning import Tuned
from prsrank.propensity.curve import PropensityCurve

LEVEL = 0.05
"""How likely chance alone may be to make another method look so much better."""


@dataclass(frozen=True)
class Choice:
    """The method that is shipped.

    Attributes:
        name: of the method.
        why: in a sentence.
        differences: METRIC of each other method less that of the preferred one on the
            validation part; empty where the method was named.
    """

    name: str
    why: str
    differences: tuple[Difference, ...] = ()

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts."""
        return {
            "name": self.name,
            "why": self.why,
            "validation": {
                difference.ranker: {
                    "less": difference.against,
                    "difference": difference.difference,
                    "low": difference.low,
                    "high": difference.high,
                    "p_value": difference.p_value,
                }
                for difference in self.differences
            },
        }


def choose(
    parts: LogParts, curve: PropensityCurve | None, tuned: Mapping[str, Tuned], plan: Plan
) -> Choice:
    """Return the method to ship: the one that is named, else by `better_shown`."""
    preferred, *others = tuned
    if not others or plan.weighting != "auto":
        return Choice(preferred, "it was asked for")
    evaluated = parts.validation.evaluate(
        curve, {name: method.ranker for name, method in tuned.items()},
        against=[preferred], seed=plan.seed,
    )  # fmt: skip
    kind = evaluated.evaluation.narrowest
    differences = [
        evaluated.evaluation.difference(name, METRIC, against=preferred, estimator=kind)
        for name in others
    ]
    return better_shown(preferred, differences)


def better_shown(preferred: str, differences: Sequence[Difference]) -> Choice:
    """Return the preferred method, unless others are shown to be better: then the best of those.

    Each comparison is paired over queries, at LEVEL over the number of others (Bonferroni), so
    that chance alone replaces the preferred method in at most 5 % of logs.

    >>> far = Difference("all", "dcg@10", "clipped", "ips", "posterior", 0.2, 0.1, 0.3, 0.001, 0.1)
    >>> better_shown("posterior", [far]).name
    'ips'
    """
    shown = [
        difference
        for difference in differences
        if difference.difference > 0 and difference.p_value <= LEVEL / len(differences)
    ]
    kept = tuple(differences)
    if shown:
        best = max(shown, key=lambda difference: difference.difference)
        return Choice(
            best.ranker,
            f"clicks that neither learned from show it above {preferred}: {METRIC} "
            f"{best.difference:+.4f}, {best.low:+.4f} to {best.high:+.4f}",
            kept,
        )
    return Choice(
        preferred,
        f"it is the first choice, and clicks that none learned from show none of "
        f"{', '.join(difference.ranker for difference in differences)} above it",
        kept,
    )
