"""LightGBM's own answer to position bias: a term per position learned beside the trees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.click_sets import ClickSets
from prsrank.ragged import offsets_of, ragged_rows
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.threads import MANY_VALUES, import_lightgbm
from prsrank.types import Bytes, Floats, Ints, Longs


class ExpandedSessions(NamedTuple):
    """Sessions as LightGBM takes them: each distinct click set of a ranking is a group.

    Attributes:
        rows: row in the data set of each shown doc.
        clicked: 1 where it was clicked.
        positions: 0-based position of each.
        lengths: number of docs of each group.
        counts: sessions that each doc's group stands for (rows).
        offsets: offsets of the data set's lists.
    """

    rows: Longs
    clicked: Bytes
    positions: Ints
    lengths: Longs
    counts: Floats
    offsets: Longs


@dataclass(kw_only=True, eq=False, repr=False)
class LightGBMPosition(LambdaMART):
    r"""`objective="lambdarank"` on clicks, with LightGBM's field `position`.

    LightGBM adds a bias to the score of each position while it trains, learned by Newton steps
    on the same lambdas, and leaves it out when it scores. Sessions are not folded into pairs:
    groups of equal ranking and clicks share one copy and a weight, which for its gradients is
    the same as copies; the features of every group are in memory.

    Args:
        regularisation: LightGBM's `lambdarank_position_bias_regularization`.
        norm: LightGBM's `lambdarank_norm`.
        trees: this and the others as in LambdaMART.

    Attributes:
        booster_: this and the others as in LambdaMART.

    >>> from prsrank.clicks.position_based import PositionBasedModel
    >>> from prsrank.clicks.simulate import simulate_clicks
    >>> from prsrank.data.synthetic import synthetic_dataset
    >>> data = synthetic_dataset("mq2007", 20)
    >>> log = simulate_clicks(data, data.features[:, 0], PositionBasedModel(), clicks=300)
    >>> LightGBMPosition(trees=3).fit(data, log).score(data.features).shape == (data.docs,)
    True
    """

    name: ClassVar[str] = "lightgbm_position"
    takes_propensities: ClassVar[bool] = False
    search_grid: ClassVar[Sequence[Mapping[str, Any]]] = [
        {**settings, "norm": not settings["norm"]} for settings in LambdaMART.search_grid
    ]
    chart_style: ClassVar[int | None] = None

    regularisation: float = 0.0
    norm: bool = True

    def _folded(self, log: ClickLog, dataset: RankingDataset) -> ExpandedSessions:
        return expand_sessions(log, dataset)

    def _objective(self, pairs: ExpandedSessions, init_model: Any = None) -> str:
        return "lambdarank"

    def _training(
        self, lists: RankingDataset, what: ExpandedSessions, *, shared: bool
    ) -> tuple[Any, int]:
        training = import_lightgbm().Dataset(
            lists.features[what.rows],
            label=what.clicked,
            group=what.lengths,
            weight=what.counts,
            position=what.positions,
        )
        return training, len(what.rows) * lists.features.shape[1]

    def _options(self, values: int = MANY_VALUES) -> dict[str, Any]:
        own: dict[str, Any] = {
            "lambdarank_position_bias_regularization": self.regularisation,
            "lambdarank_norm": self.norm,
        }
        if self.truncation is not None:
            own["lambdarank_truncation_level"] = self.truncation
        return super()._options(values) | own | dict(self.parameters or {})


def expand_sessions(log: ClickLog, dataset: RankingDataset) -> ExpandedSessions:
    """Return a group for each distinct set of clicks on a ranking; none for those without."""
    sets = ClickSets.from_log(log, dataset, None, "naive").arrays
    if not len(sets.set_showing):
        raise InputError("the log has no clicks to learn from")
    slots, _ = ragged_rows(log.ranking_offsets, sets.set_showing)
    lengths = np.diff(log.ranking_offsets)[sets.set_showing]
    starts = offsets_of(lengths)[:-1]
    clicked = np.zeros(len(slots), np.uint8)
    clicked[np.repeat(starts, np.diff(sets.set_offsets)) + sets.set_slots] = 1
    return ExpandedSessions(
        rows=log.doc_rows(dataset)[log.ranking_docs[slots]],
        clicked=clicked,
        positions=(log.ranking_positions[slots] - 1).astype(np.int32),
        lengths=lengths,
        counts=np.repeat(sets.set_counts, lengths).astype(np.float64),
        offsets=dataset.offsets,
    )
