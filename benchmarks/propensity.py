"""Propensity estimators: speed against a plain loop over events, and recovery of known curves.

`--json` times one sample both ways and ten million events our way. `--study` simulates logs
with known propensities and tells how far each method is off and how often its intervals hold.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import numpy as np
from numba import njit

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.collections import load_dataset
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.cells import count_cells
from prsrank.propensity.curve import PowerLaw, Propensities
from prsrank.propensity.harvest import HarvestEstimator, pair_statistics
from prsrank.propensity.randomised import RandomisedEstimator, SwapEstimator
from prsrank.propensity.regression_em import RegressionEM

DATA = "synthetic:web10k:500"
DEPTH = 10
EM_STEPS = 10
Event = tuple[int, int, int]


def main() -> None:
    """Run the timing or the study and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--study", action="store_true", help="recovery of known curves")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--clicks", type=int, default=2_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--sample", type=int, default=300_000, help="events timed both ways")
    parser.add_argument("--events", type=int, default=10_000_000, help="events timed our way")
    options = parser.parse_args()
    if options.study:
        result = study(options.seeds, options.clicks, options.processes)
    else:
        result = timing(options.sample, options.events)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for name, value in result.items():
        print(f"{name}: {value}")


def timing(sample: int, events: int) -> dict[str, Any]:
    """Time harvest and EM on counts against a loop over events, and the whole on many."""
    lists, scores = _three_rankers(seed=0)
    model = PositionBasedModel(eta=1, mu=0.1, cutoff=DEPTH)
    small = simulate_clicks(lists, scores, model, sessions=sample // DEPTH, seed=0)
    large = simulate_clicks(lists, scores, model, sessions=events // DEPTH, seed=0)
    shuffled = simulate_clicks(
        lists, scores[0], model, sessions=events // DEPTH, seed=0, randomised=1.0
    )
    rows = list(events_of(small))
    _harvest_statistics(small), _em_statistics(small)
    harvest = _seconds(lambda: loop_harvest(rows)) / _seconds(lambda: _harvest_statistics(small), 5)
    em = _seconds(lambda: loop_em(rows, EM_STEPS)) / _seconds(lambda: _em_statistics(small), 5)
    whole = {
        "randomised": _seconds(lambda: RandomisedEstimator().estimate(shuffled)),
        "harvest": _seconds(lambda: HarvestEstimator().estimate(large)),
        "regression_em": _seconds(lambda: RegressionEM().estimate(large)),
        "regression_em_features": _seconds(lambda: RegressionEM().estimate(large, dataset=lists)),
    }
    return {
        "ratio": round(min(harvest, em), 1),
        "harvest_ratio": round(harvest, 1),
        "regression_em_ratio": round(em, 1),
        "sample_events": len(rows),
        "events": int(large.sessions) * DEPTH,
        "seconds": {name: round(value, 2) for name, value in whole.items()},
    }


def events_of(log: ClickLog) -> Iterator[Event]:
    """Yield (query and doc, position, click) of every doc shown in every session."""
    click_offsets = log.click_offsets
    for session in range(log.sessions):
        ranking = log.session_ranking[session]
        start, stop = log.ranking_offsets[ranking], log.ranking_offsets[ranking + 1]
        clicked = set(log.clicks[click_offsets[session] : click_offsets[session + 1]].tolist())
        for i, slot in enumerate(range(start, stop)):
            yield int(log.ranking_docs[slot]), int(log.ranking_positions[slot]), int(i in clicked)


def loop_harvest(events: list[Event]) -> dict[tuple[int, int], float]:
    """Harvest's statistics event by event."""
    shown: dict[tuple[int, int], int] = defaultdict(int)
    clicked: dict[tuple[int, int], int] = defaultdict(int)
    positions: dict[int, set[int]] = defaultdict(set)
    for doc, k, click in events:
        shown[doc, k] += 1
        clicked[doc, k] += click
        positions[doc].add(k)
    rates: dict[tuple[int, int], float] = defaultdict(float)
    for doc, places in positions.items():
        for k, other in product(places, places):
            if k != other:
                rates[k, other] += clicked[doc, k] / shown[doc, k]
    return rates


def loop_em(events: list[Event], steps: int) -> dict[int, float]:
    """Expectation-maximisation event by event, one r per doc."""
    p = {k: 0.9 * k**-0.5 for _, k, _ in events}
    r = {doc: 0.5 for doc, _, _ in events}
    for _ in range(steps):
        seen: dict[int, float] = defaultdict(float)
        relevant: dict[int, float] = defaultdict(float)
        at: dict[int, int] = defaultdict(int)
        of: dict[int, int] = defaultdict(int)
        for doc, k, click in events:
            both = p[k] * r[doc]
            seen[k] += 1 if click else (p[k] - both) / (1 - both)
            relevant[doc] += 1 if click else (r[doc] - both) / (1 - both)
            at[k] += 1
            of[doc] += 1
        p = {k: seen[k] / at[k] for k in at}
        r = {doc: relevant[doc] / of[doc] for doc in of}
    return p


def study(seeds: int, clicks: int, processes: int) -> dict[str, Any]:
    """Return the median relative error at positions 2 to 5 and coverage at 2 to 10."""
    tasks = list(product((0.5, 1.0, 1.5), (0.0, 0.1), range(seeds), (clicks,)))
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    with ProcessPoolExecutor(processes) as pool:
        for done, (task, rows) in enumerate(zip(tasks, pool.map(recover, tasks), strict=True)):
            print(f"{done + 1} of {len(tasks)}", file=sys.stderr, flush=True)
            for method, (error, held) in rows.items():
                for setting in ("all", f"eta={task[0]} mu={task[1]}"):
                    found[method][setting].append((error, held))
    return {method: _summary(settings) for method, settings in found.items()}


def recover(task: tuple[float, float, int, int]) -> dict[str, tuple[list[float], list[bool]]]:
    """Simulate the three kinds of log and estimate with every method."""
    eta, mu, seed, clicks = task
    lists, scores = _three_rankers(seed)
    model = PositionBasedModel(eta=eta, mu=mu)
    settings: dict[str, Any] = {"clicks": clicks, "seed": seed, "threads": 1}
    shuffled = simulate_clicks(lists, scores[0], model, randomised=0.1, **settings)
    em = RegressionEM(positions=2 * DEPTH)
    curves = {
        "randomised": RandomisedEstimator().estimate(shuffled, seed=seed),
        "regression-em, features": em.estimate(shuffled, dataset=lists, seed=seed),
    }
    del shuffled
    for design in ("adjacent", "pivot"):
        log = simulate_clicks(lists, scores[0], model, randomised=0.1, design=design, **settings)
        curves[f"swap, {design}"] = SwapEstimator().estimate(log, seed=seed)
    log = simulate_clicks(lists, scores, model, **settings)
    for form in ("all-pairs", "adjacent-chain"):
        curves[f"harvest, {form}"] = HarvestEstimator(form=form).estimate(log, seed=seed)
    curves["regression-em, no features"] = em.estimate(log, seed=seed)
    return {name: _compare(curve, eta) for name, curve in curves.items()}


def _compare(curve: Propensities, eta: float) -> tuple[list[float], list[bool]]:
    truth = PowerLaw(eta).at(np.arange(1, DEPTH + 1))
    p, low, high = (x[:DEPTH] for x in (curve.propensity, curve.low, curve.high))
    error = np.abs(p / truth - 1)[1:5]
    return error.tolist(), ((low <= truth) & (truth <= high))[1:].tolist()


def _summary(settings: dict[str, list[Any]]) -> dict[str, Any]:
    return {
        setting: {
            "median_error": round(float(np.nanmedian([error for error, _ in rows])), 4),
            "worst_median_by_position": round(
                float(np.nanmedian([error for error, _ in rows], axis=0).max()), 4
            ),
            "coverage": round(float(np.mean([held for _, held in rows])), 4),
        }
        for setting, rows in settings.items()
    }


def _three_rankers(seed: int) -> tuple[Any, Any]:
    data = load_dataset(DATA, "train")
    return logging_part(data, [production_scores(data, seed=3 * seed + i) for i in range(3)])


def _harvest_statistics(log: ClickLog) -> object:
    return pair_statistics(count_cells(log))


@njit(cache=True, nogil=True)
def _em_step(offsets, positions, shown, clicked, p, r):  # type: ignore[no-untyped-def]
    """One step of expectation-maximisation on counts: new p and new r."""
    seen_at, shown_at, relevance = np.zeros(len(p)), np.zeros(len(p)), r.copy()
    for doc in range(len(r)):
        relevant = sessions = 0.0
        for i in range(offsets[doc], offsets[doc + 1]):
            k = positions[i] - 1
            both = min(p[k] * r[doc], 1 - 1e-15)
            missed = (shown[i] - clicked[i]) / (1 - both)
            seen_at[k] += clicked[i] + missed * (p[k] - both)
            shown_at[k] += shown[i]
            relevant += clicked[i] + missed * (r[doc] - both)
            sessions += shown[i]
        if sessions > 0:
            relevance[doc] = relevant / sessions
    return np.where(shown_at > 0, seen_at / shown_at, p), relevance


def _em_statistics(log: ClickLog) -> object:
    cells = count_cells(log)
    p, r = 0.9 * np.arange(1, cells.depth + 1) ** -0.5, np.full(cells.docs, 0.5)
    for _ in range(EM_STEPS):
        p, r = _em_step(cells.offsets, cells.positions, cells.shown, cells.clicked, p, r)
    return p


def _seconds(work: Callable[[], object], repeats: int = 1) -> float:
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return float(best)


if __name__ == "__main__":
    main()
