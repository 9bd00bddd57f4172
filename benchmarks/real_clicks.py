"""Rankers trained on real clicks and measured on judgements: people searching by a real engine.

    python benchmarks/real_clicks.py trec_session_2012.parquet [--json]

The file has one row per shown doc: query_id, session_id, doc_id, position, click, label, topic, query, title, snippet,
url. Features come from the texts. Topics are cut into folds; the curve, the settings and the rankers come from the clicks
of the training topics, and `label` alone measures on the others. Values are averaged over repeats by topic, and
intervals are over topics. `real_clicks.toml` holds the claim and the settings.
"""

import argparse
import itertools
import json
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from prsrank import (
    ClickLog,
    RankingDataset,
    RegressionEM,
    covering,
    judge,
)
from prsrank.fit.judging import Weighed
from prsrank.fit.log import PiecedLog
from prsrank.metrics.ranking import ndcg
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.base import ranker_class
from text_features import ENDINGS, address_features, text_features

SPEC = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
METHODS = ("naive", "ips", "prs", "doubly_robust", "posterior", "labels")
Rows = dict[str, Any]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="the Parquet file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = read(options.data)
    result = {
        "claim": SPEC["claim"].strip(),
        "requests": len(set(rows["session_id"])),
        "clicks": int(rows["click"].sum()),
        "curve": curve_beside_click_rates(rows),
        "rankers": quality(rows),
        "judged": judged(rows),
    }
    if options.json:
        print(json.dumps(result))
        return
    for name in ("claim", "requests", "clicks"):
        print(f"{name}: {result[name]}")
    print("\ncurve and click rates, relative to the first position")
    for row in result["curve"]:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    print(
        "\nNDCG@10 on the judgements, mean over topics, and posterior less the method (95 % over topics)"
    )
    for row in result["rankers"]:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    print(f"\njudge: {result['judged']}")


def read(path: str) -> Rows:
    """Return the columns of a log, sorted by session and position."""
    table = duckdb.execute(
        "SELECT * FROM read_parquet(?) ORDER BY session_id, position", [path]
    ).fetchnumpy()
    return {name: np.asarray(values) for name, values in table.items()}


def lists_of(rows: Rows) -> RankingDataset:
    """Return the docs shown for each query, with features from the texts and the judgements."""
    keys = list(zip(rows["query_id"].tolist(), rows["doc_id"].tolist(), strict=True))
    first = sorted({key: row for row, key in reversed(list(enumerate(keys)))}.values())
    order = sorted(first, key=lambda row: keys[row])
    chosen = {name: values[order] for name, values in rows.items()}
    columns, names = [], []
    for field in ("title", "snippet", "url"):
        texts = [str(text or "") for text in chosen[field]]
        columns.append(text_features([str(q) for q in chosen["query"]], texts))
        names += [f"{field}_{kind}" for kind in ("bm25", "coverage", "phrase", "length")]
    columns.append(address_features([str(url or "") for url in chosen["url"]]))
    names += ["depth", "characters", *(f"is_{ending}" for ending in ENDINGS), "host_docs"]
    return RankingDataset.from_frame(
        {
            "query_id": chosen["query_id"].astype(str),
            "doc_id": chosen["doc_id"].astype(str),
            "label": chosen["label"],
            **dict(zip(names, np.hstack(columns).T, strict=True)),
        },
        label="label",
        features=names,
    )


def log_of(rows: Rows, chosen: npt.NDArray[np.bool_]) -> ClickLog:
    """Return the sessions of some rows."""
    names = ("query_id", "session_id", "doc_id", "position", "click")
    frame = {name: rows[name][chosen] for name in names}
    frame |= {name: frame[name].astype(str) for name in ("query_id", "session_id", "doc_id")}
    return ClickLog.from_frame(frame | {"click": frame["click"].astype(bool)})


def parts_of(topics: npt.NDArray, parts: int, seed: int) -> dict[Any, int]:
    """Return the part of each topic."""
    distinct = np.unique(topics)
    shuffled = np.random.default_rng(seed).permutation(len(distinct))
    return {topic: int(place) % parts for topic, place in zip(distinct, shuffled, strict=True)}


def fitted_curve(log: ClickLog, lists: RankingDataset) -> Any:
    """Return the propensities that the clicks show, with features: nothing was shuffled."""
    curve = RegressionEM(shape="monotone").estimate(log, dataset=lists)
    return covering(curve, log.max_position)


def curve_beside_click_rates(rows: Rows) -> list[dict[str, float]]:
    """Return the curve, and how often judged-relevant and irrelevant docs are clicked, by position."""
    curve = fitted_curve(log_of(rows, np.ones(len(rows["click"]), bool)), lists_of(rows))
    topics = np.unique(rows["topic"])
    rng, table = np.random.default_rng(0), []
    draws = [rng.choice(topics, len(topics)) for _ in range(500)]
    weights = np.array([[np.count_nonzero(draw == t) for t in topics] for draw in draws])
    for position in range(1, 11):
        row: dict[str, float] = {"position": position}
        row["curve"] = round(float(curve.at(np.array([position]))[0]), 3)
        for name, marked in (("relevant", rows["label"] > 0), ("irrelevant", rows["label"] <= 0)):
            rates = []
            for at in (1, position):
                here = marked & (rows["position"] == at)
                sums = [
                    [
                        float(rows["click"][here & (rows["topic"] == t)].sum()),
                        float((here & (rows["topic"] == t)).sum()),
                    ]
                    for t in topics
                ]
                rates.append(np.array(sums))
            drawn = [np.divide(*(weights @ part).T) for part in rates]
            ratio = (rates[1][:, 0].sum() / rates[1][:, 1].sum()) / (
                rates[0][:, 0].sum() / rates[0][:, 1].sum()
            )
            low, high = np.nanpercentile(drawn[1] / drawn[0], [2.5, 97.5])
            row |= {
                name: round(ratio, 3),
                f"{name} low": round(low, 3),
                f"{name} high": round(high, 3),
            }
        table.append(row)
    return table


def trained(
    method: str,
    kind: str,
    rows: Rows,
    learning: npt.NDArray[np.bool_],
    lists: RankingDataset,
    seed: int,
) -> Any:
    """Return the ranker with the settings that the clicks of an inner part of the topics prefer."""
    inner = parts_of(rows["topic"][learning], SPEC["inner_folds"], seed)
    aside = np.array([inner.get(topic, -1) == 0 for topic in rows["topic"]]) & learning
    log, validation = log_of(rows, learning & ~aside), log_of(rows, aside)
    docs = lists.select(np.flatnonzero(np.isin(lists.query_ids, log.query_ids)))
    judges = lists.select(np.flatnonzero(np.isin(lists.query_ids, validation.query_ids)))
    known = np.isin(lists.query_ids, rows["query_id"][learning].astype(str))
    curve = fitted_curve(log_of(rows, learning), lists.select(np.flatnonzero(known)))
    settings = SPEC["rankers"][kind]
    names, values = list(settings["grid"]), settings["grid"].values()
    rankers = [
        ranker_class(kind)(
            **settings["settings"],
            **dict(zip(names, chosen, strict=True)),
            **ranker_class(kind).accepted(missing="impute", threads=1, seed=seed),
        )
        for chosen in itertools.product(*values)
    ]
    how = Weighed(curve, "prs" if method == "labels" else method, {}, tau=0.05)
    pieces = PiecedLog.of([validation], judges)
    if method == "labels":
        quality = pieces.quality(how)
        reached = []
        for ranker in rankers:
            stop = quality if ranker.stops_early else None
            ranker.fit(docs, PairSet.from_labels(docs, **ranker.pair_options), validation=stop)
            reached.append(quality[1](ranker.score(judges.features)))
    else:
        reached = list(PiecedLog.of([log], docs).train(rankers, how, validation=pieces).values)
    return rankers[int(np.argmax(reached))]


def quality(rows: Rows) -> list[dict[str, Any]]:
    """Return NDCG@10 of each method by topic, and how far posterior pairs are above it."""
    lists = lists_of(rows)
    topic_of = dict(zip(rows["query_id"].astype(str).tolist(), rows["topic"].tolist(), strict=True))
    topics = np.array([topic_of[query] for query in lists.query_ids.tolist()])
    kinds = [*((method, kind) for kind in ("lambdamart", "linear") for method in METHODS)]
    kinds.append(("position", "lightgbm_position"))
    values: dict[tuple[str, str], list[npt.NDArray]] = {name: [] for name in kinds}
    best = np.full(lists.docs, np.inf)
    positions: dict[tuple[str, str], float] = {}
    for query, doc, position in zip(
        rows["query_id"].astype(str), rows["doc_id"].astype(str), rows["position"], strict=True
    ):
        positions[query, doc] = min(position, positions.get((query, doc), np.inf))
    owners = np.repeat(lists.query_ids, lists.list_lengths)
    best[:] = [
        -positions[query, doc]
        for query, doc in zip(owners.tolist(), lists.doc_names.tolist(), strict=True)
    ]
    engine = ndcg(lists.labels, best, lists.offsets, k=10)
    for repeat in range(SPEC["repeats"]):
        part = parts_of(rows["topic"], SPEC["folds"], repeat)
        scores = {name: np.zeros(lists.docs) for name in kinds}
        for fold in range(SPEC["folds"]):
            learning = np.array([part[topic] != fold for topic in rows["topic"]])
            tested = np.array([part[topic] == fold for topic in topics])
            docs = np.repeat(tested, lists.list_lengths)
            for method, kind in kinds:
                weighting = "naive" if method == "position" else method
                ranker = trained(weighting, kind, rows, learning, lists, repeat)
                scores[method, kind][docs] = ranker.score(lists.features[docs])
        for name in kinds:
            values[name].append(ndcg(lists.labels, scores[name], lists.offsets, k=10))
    by_topic = {
        name: mean_by_topic(np.nanmean(runs, axis=0), topics) for name, runs in values.items()
    }
    by_topic["production", ""] = mean_by_topic(engine, topics)
    return list(compared(by_topic))


def mean_by_topic(values: npt.NDArray, topics: npt.NDArray) -> npt.NDArray:
    """Return the mean over the queries of each topic that have a relevant doc."""
    return np.array(
        [
            np.nanmean(values[topics == topic])
            if np.isfinite(values[topics == topic]).any()
            else np.nan
            for topic in np.unique(topics)
        ]
    )


def compared(by_topic: Mapping[tuple[str, str], npt.NDArray]) -> Iterator[dict[str, Any]]:
    """Yield each method with the difference of posterior pairs, intervals by bootstrap over topics."""
    rng = np.random.default_rng(0)
    for (method, kind), values in by_topic.items():
        ranker = "linear" if kind == "linear" else "lambdamart"
        gain = by_topic["posterior", ranker] - values
        gain = gain[np.isfinite(gain)]
        draws = rng.choice(gain, (SPEC["resamples"], len(gain))).mean(axis=1)
        low, high = np.percentile(draws, [2.5, 97.5])
        yield {
            "method": method,
            "ranker": kind,
            "topics": len(gain),
            "ndcg@10": round(float(np.nanmean(values)), 4),
            "posterior less it": round(float(gain.mean()), 4),
            "low": round(float(low), 4),
            "high": round(float(high), 4),
        }


def judged(rows: Rows) -> dict[str, float]:
    """Return how often a relevant doc is rated above an irrelevant one of the same query."""
    lists = lists_of(rows)
    log = log_of(rows, np.ones(len(rows["click"]), bool))
    curve = fitted_curve(log, lists)
    shown, clicked = log.slot_statistics()
    docs = log.doc_rows(lists)[log.ranking_docs]
    rate = np.bincount(docs, clicked, lists.docs) / np.maximum(
        np.bincount(docs, shown, lists.docs), 1
    )
    position = np.bincount(docs, shown * log.ranking_positions, lists.docs) / np.maximum(
        np.bincount(docs, shown, lists.docs), 1
    )
    full = judge(log, curve, lists)
    theta = dict(
        zip(
            zip(full.query_ids.tolist(), full.doc_ids.tolist(), strict=True),
            full.theta,
            strict=True,
        )
    )
    owners = np.repeat(lists.query_ids, lists.list_lengths)
    rated = np.array(
        [theta.get(key, 0.0) for key in zip(owners.tolist(), lists.doc_names.tolist(), strict=True)]
    )
    ratings = {"posterior": rated, "click rate": rate, "engine's order": -position}
    return {name: round(above(lists, values), 4) for name, values in ratings.items()}


def above(lists: RankingDataset, values: npt.NDArray) -> float:
    """Return the share of pairs of a relevant and an irrelevant doc that are in order; ties count half."""
    right = total = 0.0
    for start, end in itertools.pairwise(lists.offsets):
        relevant = lists.labels[start:end] > 0
        ahead = values[start:end][relevant][:, None] - values[start:end][~relevant][None]
        right += float((ahead > 0).sum() + 0.5 * (ahead == 0).sum())
        total += ahead.size
    return right / total


if __name__ == "__main__":
    main()
