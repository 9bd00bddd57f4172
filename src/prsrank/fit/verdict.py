"""What to do with a fit: test the model online, look further, or collect more clicks first."""

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prsrank.evaluation.results import LOGGED, Difference
from prsrank.metrics.significance import kendall_tau
from prsrank.propensity.cells import Columns
from prsrank.propensity.counted_clicks import SampledClicks
from prsrank.propensity.curve import Propensities
from prsrank.rankers.base import Ranker
from prsrank.types import Floats

TEST_ONLINE, NO_DIFFERENCE, TOO_THIN = "test-online", "no-difference", "too-thin"

TITLES = {
    TEST_ONLINE: "Test it online",
    NO_DIFFERENCE: "No difference shown",
    TOO_THIN: "Too thin: don't ship",
}

_GAIN = ("metric", "against", "difference", "low", "high", "relative")

FEWEST_LEARNED, FEWEST_JUDGED = 100, 50
"""The fewest clicks to learn from, and to judge by."""


@dataclass(frozen=True)
class Agreement:
    """How alike a ranker's order and the logged one are, over lists.

    Attributes:
        tau: mean of Kendall's tau over lists; NaN if the ranker tells no docs apart.
        error: its standard error.
    """

    tau: float
    error: float

    @classmethod
    def of(cls, ranker: Ranker, sampled: SampledClicks) -> "Agreement":
        """Compare a ranker with the mean positions at which docs were shown."""
        of_lists = [_taus(ranker, lists, cells) for lists, cells in sampled.parts]
        taus_known = [tau for taus in of_lists for tau in taus.tolist() if not math.isnan(tau)]
        if not taus_known:
            return cls(math.nan, math.nan)
        # fsum, because pieces come in any order
        mean = math.fsum(taus_known) / len(taus_known)
        spread = math.fsum((tau - mean) ** 2 for tau in taus_known) / max(len(taus_known) - 1, 1)
        return cls(mean, math.sqrt(spread / len(taus_known)))


def _taus(ranker: Ranker, lists: Any, cells: Columns) -> Floats:
    docs, positions, times, _ = cells
    shown = np.bincount(docs, times, lists.docs)
    total = np.bincount(docs, times * positions, lists.docs)
    there = shown > 0
    offsets = np.concatenate([[0], np.cumsum(there)])[lists.offsets]
    scores = np.asarray(ranker.score(lists.features))
    return kendall_tau(scores[there], -total[there] / shown[there], offsets)


@dataclass(frozen=True)
class Evidence:
    """What the rules ask about.

    Attributes:
        learned: clicks of the training part.
        judged: clicks of the held-out part.
        gain: of the judged model over the baseline, on the held-out part.
        baseline: name of it in a sentence.
        trees: of the judged model; None for one without.
        agreement: with the order shown; None where that was random.
        curve: the propensities; None for those in the log.
    """

    learned: int
    judged: int
    gain: Difference
    baseline: str
    trees: int | None = None
    agreement: Agreement | None = None
    curve: Propensities | None = None


@dataclass(frozen=True)
class Verdict:
    """What to do, and why.

    Attributes:
        verdict: "test-online", "no-difference" or "too-thin".
        rule: name of the rule that decided.
        reason: in a sentence.
        gain: of the judged model over the baseline.
        next_command: what to run next.
        forced: whether the model is written though it is too thin.
    """

    verdict: str
    rule: str
    reason: str
    gain: Difference
    next_command: str
    forced: bool = False

    @property
    def title(self) -> str:
        """The verdict in words."""
        return TITLES[self.verdict]

    @property
    def ships(self) -> bool:
        """Whether the model is written."""
        return self.verdict != TOO_THIN or self.forced

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts."""
        return {
            "verdict": self.verdict,
            "rule": self.rule,
            "reason": self.reason,
            "gain": {name: getattr(self.gain, name) for name in _GAIN},
            "forced": self.forced,
        }


@dataclass(frozen=True)
class Rule:
    """A reason for a verdict.

    Attributes:
        name: of the rule.
        verdict: what it leads to.
        applies: returns the reason, or "" where the rule does not apply.
        command: what to run next; RUN (the folder of the fit) and GAIN are filled in.
    """

    name: str
    verdict: str
    applies: Callable[[Evidence], str]
    command: str


def _few_clicks(evidence: Evidence) -> str:
    if evidence.learned >= FEWEST_LEARNED and evidence.judged >= FEWEST_JUDGED:
        return ""
    return (
        f"{evidence.learned} clicks to learn from and {evidence.judged} to judge by: at least "
        f"{FEWEST_LEARNED} and {FEWEST_JUDGED} are needed"
    )


def _unsupported(evidence: Evidence) -> str:
    curve = evidence.curve
    if curve is None or curve.method == "known" or (curve.clicks[1:] > 0).any():
        return ""
    return "no position below the first has clicks enough behind its propensity"


def _constant(evidence: Evidence) -> str:
    if evidence.agreement is None or not math.isnan(evidence.agreement.tau):
        return ""
    return "the model puts no doc above another: the features do not tell docs of a list apart"


def _one_tree(evidence: Evidence) -> str:
    if evidence.trees is None or evidence.trees > 1:
        return ""
    return "the validation clicks stop the model at its first tree: it learns nothing that holds"


def _reversed(evidence: Evidence) -> str:
    order = evidence.agreement
    if order is None or not order.tau + 2 * order.error < 0:
        return ""
    return (
        f"the model reverses the order shown (Kendall's tau {order.tau:.2f}), as a curve that is "
        "too steep makes models do"
    )


def _no_interval(evidence: Evidence) -> str:
    if math.isfinite(evidence.gain.low) and math.isfinite(evidence.gain.high):
        return ""
    return "the held-out clicks come from too few queries for an interval of the gain"


def _random_only(evidence: Evidence) -> str:
    if evidence.gain.against == LOGGED or not evidence.gain.low > 0:
        return ""
    return (
        f"held-out clicks show the model above {evidence.baseline}, which says nothing of the ranking "
        "in production: --holdout query:0.2 compares with that"
    )


def _gains(evidence: Evidence) -> str:
    if not evidence.gain.low > 0:
        return ""
    return f"held-out clicks show the model above {evidence.baseline}"


def _loses(evidence: Evidence) -> str:
    if not evidence.gain.high < 0:
        return ""
    return f"held-out clicks show the model below {evidence.baseline}"


def _unclear(evidence: Evidence) -> str:
    return f"held-out clicks do not tell the model from {evidence.baseline}"


_MORE = "prsrank plan experiment RUN --position 2"
_TEST = "prsrank plan test RUN --gain GAIN"

RULES = (
    Rule("few-clicks", TOO_THIN, _few_clicks, _MORE),
    Rule("unsupported-curve", TOO_THIN, _unsupported, _MORE),
    Rule("constant-scores", TOO_THIN, _constant, "prsrank audit RUN"),
    Rule("reversed-order", TOO_THIN, _reversed, "prsrank sensitivity RUN --out study"),
    Rule("no-interval", TOO_THIN, _no_interval, _MORE),
    Rule("random-only", NO_DIFFERENCE, _random_only, _MORE),
    Rule("gain-shown", TEST_ONLINE, _gains, _TEST),
    Rule("one-tree", TOO_THIN, _one_tree, _MORE),
    Rule("loss-shown", NO_DIFFERENCE, _loses, _MORE),
    Rule("no-difference", NO_DIFFERENCE, _unclear, _MORE),
)
"""The rules, in this order: the first that applies decides."""


def decide(evidence: Evidence, *, run: str, forced: bool = False) -> Verdict:
    """Return the verdict of the first rule that applies; the last one always does."""
    for rule in RULES:
        reason = rule.applies(evidence)
        if reason:
            gain = f"{evidence.gain.relative:.3f}"
            command = rule.command.replace("GAIN", gain).replace("RUN", shlex.quote(run))
            forces = forced and rule.verdict == TOO_THIN
            return Verdict(rule.verdict, rule.name, reason, evidence.gain, command, forces)
    raise AssertionError("the last rule applies to everything")
