"""What a run was trained on, as windows are compared with it."""

from dataclasses import dataclass, replace

import numpy as np

from prsrank.fit.local import LocalLog
from prsrank.monitor.curves import Curve
from prsrank.monitor.summary import Gain, Summary, Watched, summarise
from prsrank.monitor.window_sums import DEPTH, feature_edges, impressions_of


@dataclass(frozen=True)
class Reference:
    """The log of a fit, once and for all.

    Attributes:
        source: which log it is, in words.
        summary: its statistics.
        edges: upper ends of the bins of each feature, those that the model uses most first.
        importance: share of each of these features in the model.
        curve: that the model was trained with; None: the propensities in the log.
        gain: of the judged ranker on held-out clicks, as fit found it.
    """

    source: str
    summary: Summary
    edges: dict[str, list[float]]
    importance: dict[str, float]
    curve: Curve | None
    gain: Gain | None

    def watching(self, watched: Watched) -> Watched:
        """Return what windows are measured with: the same bins, and the same method."""
        method = "" if self.summary.curve is None else self.summary.curve.method
        edges = {name: np.array(ends) for name, ends in self.edges.items()}
        return replace(watched, edges=edges, method=method)


def measure(
    log: LocalLog, watched: Watched, *, source: str, gain: Gain | None, left_out: int = 0
) -> Reference:
    """Measure the log that a model was trained on.

    Args:
        log: its sessions.
        watched: the model and its curve.
        source: which log it is, in words.
        gain: of the model, by clicks that it did not learn from.
        left_out: sessions without features.
    """
    importance = _importance(watched)
    shown = log.pieces.total(lambda piece: impressions_of(piece, log.lists))
    index = {name: i for i, name in enumerate(log.lists.feature_names)}
    edges = {
        name: feature_edges(log.lists.features[:, index[name]].astype(np.float64), shown)
        for name in importance
    }
    summary = summarise(log, replace(watched, edges=edges), "reference", left_out=left_out)
    return Reference(
        source=source,
        summary=summary,
        edges={name: ends.tolist() for name, ends in edges.items()},
        importance=importance,
        curve=None if watched.curve is None else Curve.of(watched.curve, DEPTH),
        gain=gain,
    )


def _importance(watched: Watched) -> dict[str, float]:
    """Return the share of each feature that the model uses, the largest first; all alike if unknown."""
    model = watched.model
    found = model.feature_importance() or dict.fromkeys(model.feature_names_, 1.0)
    total = sum(abs(value) for value in found.values()) or 1.0
    shares = {name: abs(float(value)) / total for name, value in found.items() if value}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
