"""From the events of a log, out of core, to a set of weighted pairs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import GAPS_FILLED, InputError
from prsrank.files import FileName
from prsrank.logs.event_source import check_columns, check_rows, errors_in_one_line
from prsrank.logs.features import lists_of_log, lists_of_table, lists_shown
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sources import LogSource, open_events
from prsrank.pairs.counted_events import CountedEvents
from prsrank.pairs.counted_kernels import DocIndex, PairRows, PairWeights, fold_pairs, whole_numbers
from prsrank.pairs.counted_weights import Keys, Kinds, find_keys, pair_weights
from prsrank.pairs.fold import PairDraft, SessionConstant
from prsrank.pairs.pair_set import PairSet, finished_pairs
from prsrank.propensity.curve import PropensityCurve
from prsrank.weighting import WeightFunction, Weighting, find_weighting

Columns = Mapping[str, npt.NDArray]
Progress = Callable[[str], object]


def read_pairs(
    path: FileName | Sequence[FileName],
    propensities: PropensityCurve | None = None,
    weighting: str | Weighting | WeightFunction = "prs",
    *,
    dataset: RankingDataset | None = None,
    mapping: LogMapping | None = None,
    memory: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: object,
) -> tuple[PairSet, RankingDataset]:
    """Read a log of any size straight into weighted pairs and the lists they belong to.

    Args:
        path: as `open_events` takes it.
        propensities: as `pairs_of_events` takes them.
        weighting: as `PairSet.from_log` takes it.
        dataset: the lists; default: those of the mapping's features, or, without features,
            the docs that the log shows, each query's list in the order of their ids.
        mapping: which column means what.
        memory: how much DuckDB may hold, such as "2GB"; the pairs come on top.
        threads: default: the cores this process may use.
        progress: is told what is being done.
        options: as `pairs_of_events` takes them.
    """
    mapping = mapping or LogMapping()
    with open_events(path, mapping=mapping, memory=memory, threads=threads) as source:
        if dataset is None:
            _tell(progress, "finding the lists")
            if mapping.feature_table is not None:
                dataset = lists_of_table(source, mapping.feature_table, mapping=mapping)
            else:
                dataset = lists_of_log(source) if source.features else lists_shown(source)
        pairs = pairs_of_events(
            source,
            dataset,
            propensities,
            weighting,
            threads=threads,
            progress=progress,
            **options,  # type: ignore[arg-type]
        )
        return pairs, dataset


def pairs_of_events(
    source: LogSource,
    dataset: RankingDataset,
    propensities: PropensityCurve | None = None,
    weighting: str | Weighting | WeightFunction = "prs",
    *,
    parameters: Mapping[str, float] | None = None,
    normalise: str | None = None,
    truncation: int | None = None,
    context: str | None = None,
    dtype: npt.DTypeLike = np.float64,
    threads: int | None = None,
    progress: Progress | None = None,
) -> PairSet:
    r"""Fold the events of a log, without ever holding them: what `PairSet.from_log` does.

    Where the log weighs its actions, a pair is multiplied by the weight of its winner's:
    $W_{ij} = \sum_s k_s a_i(s) [c_i = 1][c_j = 0] w_{ij}(s)$.

    Args:
        source: the events.
        dataset: the lists; every query and doc of a session with clicks must be in them.
        propensities: a curve; None takes the log's own.
        weighting: as `PairSet.from_log` takes it, like the other arguments.
        parameters: parameters of the weighting.
        normalise: the session constant: None, "ndcg" or "arp".
        truncation: IDCG is that of the top `truncation` ranks.
        context: a context column of the log, whose value the curve is asked with.
        dtype: of the weights, float64 or float32.
        threads: default: the cores this process may use. No effect on the result.
        progress: is told what is being done.

    Raises:
        InputError: if rows of the log cannot be used, or as `PairSet.from_log` raises.
    """
    chosen = _click_weighting(weighting, parameters)
    constant = SessionConstant(normalise, truncation)
    check_columns(source, source.contexts)
    check_rows(source)
    if chosen.needs_propensities and propensities is None and "propensity" not in source.types:
        raise InputError(f"weighting {chosen.name} needs propensities; the log has none")
    curve = propensities if chosen.needs_propensities else None
    _tell(progress, "counting pairs")
    with errors_in_one_line(source.name):
        counted = CountedEvents(
            source,
            dataset,
            key=_key(chosen, curve),
            context=context,
            against="non-clicked" if chosen.against == "non-clicked" else "others",
            count_clicks=normalise == "ndcg",
        )
        keys = find_keys(counted.keys, curve, contexts=counted.contexts)
        kinds = Kinds(counted.most_clicks, counted.weights)
        fold = _Fold(dataset, counted.index, keys, kinds, threads)
        _begin(fold, counted)
        weights = pair_weights(dataset, chosen, constant, keys, kinds)
        for part in range(counted.parts):
            _tell(progress, f"weighing pairs, part {part + 1} of {counted.parts}")
            fold.add(counted.rows(part), weights)
    return finished_pairs(fold.draft, dataset.query_ids, constant, dtype)


def pairs_of_counts(
    counts: Columns,
    dataset: RankingDataset,
    propensities: PropensityCurve | None = None,
    weighting: str | Weighting | WeightFunction = "prs",
    *,
    parameters: Mapping[str, float] | None = None,
    normalise: str | None = None,
    truncation: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    threads: int | None = None,
) -> PairSet:
    """Make pairs of the columns that `pair_counts` gave, on whatever engine it ran.

    Args:
        counts: the columns as arrays. Its keys are positions, or, without a curve,
            propensities.
        dataset: the lists.
        propensities: the curve, or None.
        weighting: as `PairSet.from_log` takes it, like the other arguments.
        parameters: parameters of the weighting.
        normalise: the session constant; "ndcg" needs counts with `clicks`.
        truncation: IDCG is that of the top `truncation` ranks.
        dtype: of the weights, float64 or float32.
        threads: default: the cores this process may use. No effect on the result.
    """
    chosen = _click_weighting(weighting, parameters)
    constant = SessionConstant(normalise, truncation)
    curve = propensities if chosen.needs_propensities else None
    values = [counts[name] for name in ("winner_key", "loser_key") if name in counts]
    keys = find_keys(np.concatenate(values) if values else np.zeros(0, np.int64), curve)
    clicks, action = counts.get("clicks"), counts.get("weight")
    kinds = Kinds(
        0 if clicks is None else int(clicks.max(initial=0)),
        np.ones(1) if action is None else np.unique(action),
    )
    queries, query_keys = whole_numbers(counts["query_id"], dataset.query_ids)
    both = np.concatenate([counts["winner"], counts["loser"]])
    docs, doc_keys = whole_numbers(both, dataset.doc_names)
    half = len(docs) // 2
    coded = dict(counts) | {"query_id": queries, "winner": docs[:half], "loser": docs[half:]}
    fold = _Fold(dataset, DocIndex(dataset, query_keys, doc_keys), keys, kinds, threads)
    itself = coded["winner"] == coded["loser"]
    names = ("query_id", "winner", "winner_key", "loser_key")

    def name(row: int) -> str:
        index = np.flatnonzero(itself)[row]
        return f"doc {counts['winner'][index]} of query {counts['query_id'][index]}"

    fold.begin({n: coded[n][itself] for n in names if n in coded}, name)
    weights = pair_weights(dataset, chosen, constant, keys, kinds)
    fold.add(coded, weights)
    return finished_pairs(fold.draft, dataset.query_ids, constant, dtype)


@dataclass
class _Fold:
    """Counted pairs on their way into the lists of a data set."""

    dataset: RankingDataset
    index: DocIndex
    keys: Keys
    kinds: Kinds
    threads: int | None

    def begin(self, winners: Columns, name: Callable[[int], str]) -> None:
        """Check the winners and make room for them."""
        lists, rows = self.index.find(winners["query_id"], winners["winner"], threads=self.threads)
        if rows.min(initial=0) < 0:
            raise InputError(f"{name(int(rows.argmin()))} is in the log but not in the data set")
        if "winner_key" in winners:
            self._check_keys(winners, name)
        won = np.zeros(self.dataset.docs, bool)
        won[self.dataset.offsets[lists] + rows] = True
        self.draft = PairDraft.of(self.dataset.offsets, won)

    def _check_keys(self, winners: Columns, name: Callable[[int], str]) -> None:
        twice = winners["winner_key"] != winners["loser_key"]
        if twice.any():
            raise InputError(f"{name(int(twice.argmax()))} is shown twice in a session")
        codes, levels = self.keys.codes(winners["winner_key"])
        unseen = (self.keys.propensities == 0)[levels[codes]]
        if unseen.any():
            raise InputError(
                f"{name(int(unseen.argmax()))} was clicked where the propensity is 0 {GAPS_FILLED}"
            )

    def add(self, counts: Columns, weights: PairWeights) -> None:
        """Add counted pairs; all of a query at once."""
        keyed = "winner_key" in counts
        none = np.zeros(0, np.int32)
        winner_keys, levels = self.keys.codes(counts["winner_key"]) if keyed else (none, none)
        rows = PairRows(
            counts["query_id"],
            counts["winner"],
            counts["loser"],
            winner_keys,
            self.keys.codes(counts["loser_key"])[0] if keyed else none,
            levels,
            self.kinds.codes(len(counts["pairs"]), counts.get("clicks"), counts.get("weight")),
            counts["pairs"],
        )
        fold_pairs(self.draft, self.index, rows, weights, threads=self.threads)


def _begin(fold: _Fold, counted: CountedEvents) -> None:
    """Begin a fold in a scope of its own: the winners are not held any longer than that."""
    won = counted.winners()
    fold.begin(won, lambda i: counted.name(int(won["query_id"][i]), int(won["winner"][i])))


def _click_weighting(
    weighting: str | Weighting | WeightFunction, parameters: Mapping[str, float] | None
) -> Weighting:
    chosen = find_weighting(weighting, parameters)
    if chosen.of_relevance:
        raise InputError(f"{chosen.name} pairs are no sum over sessions: see prsrank.posterior")
    if chosen.against == "labels":
        raise InputError("weighting labels takes no clicks: use PairSet.from_labels")
    return chosen


def _key(weighting: Weighting, curve: PropensityCurve | None) -> str | None:
    if not weighting.needs_propensities:
        return None
    return "propensity" if curve is None else "position"


def _tell(progress: Progress | None, what: str) -> None:
    if progress is not None:
        progress(what)
