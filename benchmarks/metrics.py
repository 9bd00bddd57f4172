"""NDCG@10 of 10,000 lists of 100 docs: prsrank against scikit-learn's `ndcg_score`.

Both get the same whole labels and float64 scores and the linear gain; scikit-learn gets them
as matrices in one call, and gives lists without a relevant doc 0, so ours count 0 there too.
The repeats alternate between the two; the first call of each, which for ours holds the
compilation or the loading of compiled code, is not timed with the repeats but given apart.
`ratio` is the lower of the two cases' ratios, each the median over repeats of scikit-learn's
seconds / ours.
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics import ndcg_score

from prsrank.metrics.ranking import ndcg
from prsrank.threads import thread_count

DECIMALS = {"without_ties": None, "with_ties": 1}
LABEL_SHARES = [0.52, 0.32, 0.13, 0.02, 0.01]


def seconds(call: Callable[[], object]) -> float:
    """Return how long one call takes, after a pause in which idle BLAS threads stop spinning."""
    time.sleep(0.1)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def collection(
    lists: int, docs: int, decimals: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, scores (lists x docs) and offsets; few decimals make ties."""
    rng = np.random.default_rng(0)
    labels = rng.choice(len(LABEL_SHARES), p=LABEL_SHARES, size=(lists, docs))
    scores = rng.normal(size=labels.shape) + 0.5 * labels
    if decimals is not None:
        scores = np.round(scores, decimals)
    return labels, scores, np.arange(lists + 1) * docs


def tied_share(scores: np.ndarray) -> float:
    """Return the share of neighbours in the ranking that have the same score."""
    return float((np.diff(np.sort(scores, axis=1), axis=1) == 0).mean())


def largest_difference(ours: np.ndarray, labels: np.ndarray, scores: np.ndarray, k: int) -> float:
    """Compare list by list on a sample of lists, and the mean over all."""
    sample = np.linspace(0, len(labels) - 1, 500).astype(int)
    theirs = [ndcg_score(labels[[q]], scores[[q]], k=k) for q in sample]
    by_list = np.abs(ours[sample] - theirs).max()
    return float(max(by_list, abs(ours.mean() - ndcg_score(labels, scores, k=k))))


def compare(lists: int, docs: int, k: int, repeats: int, decimals: int | None) -> dict[str, float]:
    """Time both on one collection and compare their values."""
    labels, scores, offsets = collection(lists, docs, decimals)
    flat = labels.ravel(), scores.ravel(), offsets
    first_call = seconds(lambda: ndcg(*flat, k=k, gain="linear"))
    ndcg_score(labels, scores, k=k)
    theirs, ours = np.array(
        [
            (
                seconds(lambda: ndcg_score(labels, scores, k=k)),
                seconds(lambda: ndcg(*flat, k=k, gain="linear")),
            )
            for _ in range(repeats)
        ]
    ).T
    values = np.nan_to_num(ndcg(*flat, k=k, gain="linear"))
    return {
        "ratio": float(np.median(theirs / ours)),
        "lowest_ratio": float((theirs / ours).min()),
        "seconds": float(np.median(ours)),
        "sklearn_seconds": float(np.median(theirs)),
        "first_call_seconds": first_call,
        "max_abs_difference": largest_difference(values, labels, scores, k),
        "tied_share": tied_share(scores),
    }


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--lists", type=int, default=10_000)
    parser.add_argument("--docs", type=int, default=100, help="docs per list")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    sizes = options.lists, options.docs, options.k, options.repeats
    cases = {name: compare(*sizes, decimals) for name, decimals in DECIMALS.items()}
    result = {
        "ratio": min(case["ratio"] for case in cases.values()),
        "max_abs_difference": max(case["max_abs_difference"] for case in cases.values()),
        "lists": options.lists,
        "docs_per_list": options.docs,
        "k": options.k,
        "repeats": options.repeats,
        "threads": thread_count(),
        "first_call_excluded": True,
        **cases,
    }
    print(json.dumps(result) if options.json else table(result, cases))


def table(result: dict[str, object], cases: dict[str, dict[str, float]]) -> str:
    """Lay the result out as text."""
    lines = [
        f"NDCG@{result['k']} of {result['lists']} lists of {result['docs_per_list']} docs, "
        f"{result['threads']} threads; median of {result['repeats']} interleaved repeats, "
        "first calls excluded",
        f"{'':14}{'prsrank':>12}{'sklearn':>12}{'ratio':>8}{'max diff':>12}{'first call':>12}",
    ]
    for name, case in cases.items():
        lines.append(
            f"{name.replace('_', ' '):14}{case['seconds'] * 1e3:9.1f} ms"
            f"{case['sklearn_seconds'] * 1e3:9.1f} ms{case['ratio']:7.1f}x"
            f"{case['max_abs_difference']:12.1e}{case['first_call_seconds']:10.2f} s"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
