"""Propensities by expectation-maximisation, with relevance from features or free."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog, LogOrFrame, as_click_log
from prsrank.logs.pieces import Extent, Pieces, Sums
from prsrank.propensity.bootstrap import (
    CurveOptions,
    RawCurve,
    linked_to_first,
    solve_grounded,
    units_of,
)
from prsrank.propensity.cells import Cells, carriers_of, count_cells, queries_of
from prsrank.propensity.curve import Propensities
from prsrank.propensity.em_steps import (
    CellLikelihood,
    cell_scores,
    most_likely_curve,
    propensity_given_relevance,
    relevance_gradient,
)
from prsrank.propensity.identification import MOVE, Identified, MovedDocs
from prsrank.propensity.verdict import Status, Verdict
from prsrank.threads import tree_threads
from prsrank.types import Floats, LogTables, Reals

_NONE = (
    "every doc was only ever shown at one position, so nothing tells relevance from position; "
    "give the data set's features, log sessions of a second ranker or randomise a share"
)
_UNKNOWN = "no clicked docs link them to position 1"
_BY_FEATURES = (
    "every doc was only ever shown at one position, so that only the features tell relevance "
    "from position; log sessions of a second ranker or randomise a share"
)


@dataclass(frozen=True, kw_only=True)
class RegressionEM(CurveOptions):
    r"""Regression EM: P(click) = p_k r, both estimated in turns.

    E: for a non-click P(seen) = $p_k (1-r)/(1-p_k r)$ and P(relevant) =
    $r (1-p_k)/(1-p_k r)$; for a click both are 1. M: p_k is the mean of P(seen) at k; r is
    refitted on P(relevant). Steps work on counts per (query, doc, position).

    With a data set, r(x) is a function of its features: boosted trees, to which every M step
    adds a few, so that each begins where the last ended. Trees that fit relevance imperfectly
    bias the curve: where the ranker puts docs better than the trees think on top, the curve
    comes out too steep. The intervals hold chance only, not this bias, and take r(x) as given.

    Without a data set no EM steps are made. Every (query, doc) has its own r, and p is the
    curve of greatest likelihood, found by Newton's method; docs shown at one position only, or
    never clicked, say nothing about p and are left out. Only the product p r is bound to be a
    probability: the scale of p floats until p_1 = 1 is set at the end, and a doc's r may exceed
    1. EM, whose p and r are probabilities at every step, has another limit where that happens.

    Queries are the units of the bootstrap (docs, if queries are few).

    Args:
        steps: number of EM steps with a data set.
        trees_per_step: how many trees an M step adds.
        leaves: most leaves of a tree.
        learning_rate: shrinkage of a tree.

    References:
        Wang, Golbandi, Bendersky, Metzler, Najork: Position bias estimation for unbiased
        learning to rank in personal search. WSDM 2018.
    """

    method: ClassVar[str] = "regression-em"
    uses_features: ClassVar[bool] = True

    steps: int = 40
    trees_per_step: int = 3
    leaves: int = 63
    learning_rate: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("steps", 1), ("trees_per_step", 1), ("leaves", 2)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not 0 < self.learning_rate <= 1:
            raise InputError(f"learning_rate must be in (0, 1], not {self.learning_rate}")

    def identify(self, tables: LogTables) -> Identified:
        """Judge by clicked docs shown at two positions with clicks, or by features."""
        moved = MovedDocs(tables)
        has = {k for k, clicked in moved.clicks.items() if clicked}
        links = [
            (k, other)
            for k, other, clicked, _ in moved.pairs
            if clicked and k in has and other in has
        ]
        identified = moved.judged(self.method, links)
        at_first = tables.row("SELECT coalesce(sum(clicked), 0) FROM {cells} WHERE k = 1")
        if identified.status == Status.UNKNOWN and tables.features and int(at_first[0]):
            reason = f"only the features tell relevance from position; {MOVE}"
            return replace(identified, status=Status.WEAK, reason=reason)
        return identified

    def estimate(
        self, log: LogOrFrame, *, dataset: RankingDataset | None = None, seed: int = 0
    ) -> Propensities:
        """Return the curve of the log; see `Estimator`."""
        log = as_click_log(log)
        if dataset is None:
            return super().estimate(log, seed=seed)
        cells = count_cells(log, depth=self.depth(Extent.of(log)))
        return self._by_features(cells, dataset.features[log.doc_rows(dataset)], seed)

    def raw_curve(self, pieces: Pieces[ClickLog], depth: int) -> RawCurve:
        """Return the estimate of a log that lies in pieces, with an r of its own for every doc."""
        likelihood = pieces.map(lambda log: CellLikelihood(_telling_cells(log, depth)))
        clicks, queries = likelihood.total(
            lambda piece: Sums((piece.cells.clicks_at, queries_of(piece.cells)))
        )
        if not clicks.any():
            return RawCurve.unknown(clicks, _NONE)
        p = most_likely_curve(likelihood, clicks)
        information = likelihood.total(lambda piece: piece.information(p))
        information[clicks == 0] = information[:, clicks == 0] = 0.0
        linked = linked_to_first(information)
        count = len(queries.keys)
        scores = likelihood.total(lambda piece: piece.scores(p, count)).values
        influence = solve_grounded(information, scores, linked)
        with np.errstate(divide="ignore", invalid="ignore"):  # positions without clicks
            log_p = np.where(linked, np.log(p / p[0]), np.nan)
        return RawCurve(log_p, influence, clicks, _UNKNOWN, carriers=carriers_of(queries))

    def _by_features(self, cells: Cells, features: Reals, seed: int) -> Propensities:
        shown = np.diff(cells.offsets)
        cells, features = cells.of_docs(shown > 0), features[shown > 0]
        clicks = cells.clicks_at
        if clicks[0] == 0:
            why = "no doc at position 1 was clicked; nothing can be compared with it"
            return self.with_intervals(RawCurve.unknown(clicks, why), seed)
        p, r = self._fit_trees(cells, features, seed)
        with np.errstate(divide="ignore"):
            log_p = np.where(clicks > 0, np.log(p / p[0]), np.nan)
        influence, carriers = influence_given_relevance(cells, p, r), carriers_of(queries_of(cells))
        raw = RawCurve(log_p, influence, clicks, "no clicks", carriers=carriers)
        curve = self.with_intervals(raw, seed)
        if (shown < 2).all() and cells.depth > 1:
            why = f"positions 2-{cells.depth}: {_BY_FEATURES}"
            return replace(curve, verdict=Verdict.of(Status.WEAK, why))
        return curve

    def _fit_trees(self, cells: Cells, features: Reals, seed: int) -> tuple[Floats, Floats]:
        import lightgbm

        top = cells.positions == 1
        share = np.clip(cells.clicked[top].sum() / cells.shown[top].sum(), 0.01, 0.5)
        start = np.full(cells.docs, np.log(share / (1 - share)))
        options = {
            "objective": "none",
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": 5,
            "min_sum_hessian_in_leaf": 1.0,
            "lambda_l2": 1.0,
            "num_threads": tree_threads(features.size),
            "seed": seed,
            "deterministic": True,
            "force_col_wise": True,
            "feature_pre_filter": False,
            "verbose": -1,
        }
        data = lightgbm.Dataset(features, init_score=start, params=options)
        booster = lightgbm.Booster(options, data)
        # LightGBM hands the current scores to the objective, so EM steps happen inside it
        p: Floats = 0.9 * np.arange(1, cells.depth + 1, dtype=np.float64) ** -0.5
        r, calls = start, 0

        def objective(scores: Floats, _: object) -> tuple[npt.NDArray, npt.NDArray]:
            nonlocal p, r, calls
            r = 1 / (1 + np.exp(-scores))
            if calls % self.trees_per_step == 0:
                p = propensity_given_relevance(cells, p, r)
            calls += 1
            gradient, curvature = relevance_gradient(cells, p, r)
            return gradient.astype(np.float32), curvature.astype(np.float32)

        for _ in range(self.steps * self.trees_per_step + 1):
            booster.update(fobj=objective)
        return p, r


REGRESSION_EM = RegressionEM()


def _telling_cells(log: ClickLog, depth: int) -> Cells:
    """Return the cells of the docs that were clicked and shown at several positions."""
    cells = count_cells(log, depth=depth)
    return cells.of_docs((cells.sums(cells.clicked) > 0) & (np.diff(cells.offsets) > 1))


def influence_given_relevance(cells: Cells, p: Floats, r: Floats) -> Floats:
    """Return each unit's effect on log(p_k / p_1), r being given (units x positions)."""
    doc, place = cells.cell_docs, cells.positions - 1
    surplus, information = cell_scores(cells, p, r)
    keys, unit = units_of(cells.unit_keys(len(queries_of(cells).keys)))
    scores = np.bincount(unit[doc] * cells.depth + place, surplus, len(keys) * cells.depth)
    with np.errstate(divide="ignore", invalid="ignore"):
        moves = scores.reshape(-1, cells.depth) / np.bincount(place, information, cells.depth)
    return np.asarray(moves - moves[:, :1])
