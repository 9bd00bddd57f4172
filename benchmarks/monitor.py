"""False alarms of prsrank monitor, and how soon it finds changes: the table of docs/commands/monitor.md.

    python benchmarks/monitor.py --out monitor.jsonl [--logs 200] [--changed 40] [--seed 0] [--first 3]

Each log draws queries and sessions of its own from a population of lists, clicked by the
position-based model (eta 1, mu 0.1). Ten logs share a model, a curve and the log that both were trained on;
half of a log's queries are new to it. Stationary logs have two windows, numbered 1 and 2. Changed logs
have up to two windows after the change, numbered from --first on, as if quiet ones had come before: the
level is that much stricter. Of these the last is drawn, for its clicks are added to the first changed ones. What was measured is appended to --out, one JSON object a log; a run that is started again goes on
where it ended. Thresholds, levels and shares were chosen on the logs of --seed 100 and 101.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from prsrank import LambdaMART, PositionBasedModel, simulate_clicks, synthetic_dataset
from prsrank.clicks.production import production_scores
from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.results import LOGGED
from prsrank.fit.log import PiecedLog
from prsrank.fit.plan import Plan
from prsrank.logs.click_log import ClickLog
from prsrank.logs.features import known_lists
from prsrank.monitor.checks import judge
from prsrank.monitor.ratios import Depths
from prsrank.monitor.summary import Gain, Reference, Watched, measure, summarise
from prsrank.monitor.windows import WindowSums
from prsrank.propensity.curve import Propensities, covering
from prsrank.propensity.curve_of import KnownPropensity
from prsrank.propensity.estimators import estimator

POPULATION = {"mq2007": 300, "personal": 1000}
LISTS = {"mq2007": 70, "personal": 250}


@dataclass(frozen=True)
class Setup:
    """Lists, where the curve comes from, and the clicks of a window; the reference has five times."""

    shape: str
    curve: str
    clicks: int


SETUPS = (
    Setup("mq2007", "randomised", 1000),
    Setup("mq2007", "harvest", 3000),
    Setup("mq2007", "given", 400),
    Setup("personal", "randomised", 2000),
    Setup("personal", "given", 600),
    Setup("mq2007", "given", 100),
)
CHANGES = ("steeper curve", "ranker swapped", "positions lost", "feature rescaled", "bots")
LOGS_PER_REFERENCE = 10


class Population:
    """Lists of a shape, and the scores of production rankers."""

    def __init__(self, shape: str) -> None:
        self.lists = synthetic_dataset(shape, POPULATION[shape])
        features = self.lists.features
        self.scores = [production_scores(self.lists, seed=s).score(features) for s in (1, 2, 3)]

    def part(self, chosen: np.ndarray) -> tuple[RankingDataset, list[np.ndarray]]:
        """Return some of the lists, and the scores of their docs."""
        ends = self.lists.offsets
        rows = np.concatenate([np.arange(ends[i], ends[i + 1]) for i in chosen])
        return self.lists.select(chosen), [one[rows] for one in self.scores]


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, the reference, and which lists the reference showed."""

    watched: Watched
    reference: Reference
    lists: np.ndarray


def sessions(
    setup: Setup,
    part: tuple[RankingDataset, list[np.ndarray]],
    clicks: int,
    seed: int,
    *,
    eta: float = 1.0,
    swapped: bool = False,
) -> ClickLog:
    """Draw sessions: one production ranker, two for harvesting; a swap puts in another."""
    lists, scores = part
    shown = [scores[2 if swapped else 0]]
    if setup.curve == "harvest":
        shown.append(scores[1])
    share = 0.1 if setup.curve == "randomised" else 0.0
    users = PositionBasedModel(eta=eta, mu=0.1)
    return simulate_clicks(lists, shown, users, clicks=clicks, seed=seed, randomised=share)


def local(log: ClickLog, lists: RankingDataset) -> PiecedLog:
    """Lay sessions on their lists."""
    return PiecedLog.of([log], known_lists(log, lists))


def train(setup: Setup, population: Population, seed: int) -> Trained:
    """Train a model on a log of its own, and measure that log as the reference."""
    rng = np.random.default_rng(seed)
    size, total = LISTS[setup.shape], POPULATION[setup.shape]
    chosen = np.sort(rng.choice(total, size, replace=False))
    part = population.part(chosen)
    log = sessions(setup, part, 5 * setup.clicks, seed)
    curve = _curve(setup, log)
    model = LambdaMART(trees=40)
    held_out = population.part(np.sort(rng.choice(total, size, replace=False)))
    model.fit(part[0], model.pairs(log, part[0], curve))
    plan = Plan("log", data=f"synthetic:{setup.shape}:{total}")
    watched = Watched(plan, model, curve, {})
    test = local(sessions(setup, held_out, setup.clicks, seed + 1), held_out[0])
    gain = _gain(test, watched)
    return Trained(watched, measure(local(log, part[0]), watched, source="", gain=gain), chosen)


def _curve(setup: Setup, log: ClickLog) -> Propensities:
    if setup.curve == "given":
        return KnownPropensity(eta=1.0).at_depth(log.max_position)
    method: Any = replace(estimator(setup.curve), shape="monotone")  # type: ignore[type-var]
    return covering(method.estimate(log), log.max_position)


def _gain(log: PiecedLog, watched: Watched) -> Gain | None:
    curve = covering(watched.curve, log.extent().depth)
    found = log.evaluate(curve, {"model": watched.model}, against=[LOGGED]).evaluation
    one = found.difference("model", "dcg@10", estimator="dr")
    return Gain(one.difference, one.low, one.high, 0.0) if np.isfinite(one.low) else None


def window(
    setup: Setup, population: Population, trained: Trained, change: str, seed: int
) -> PiecedLog:
    """Draw a window, half of whose queries are new, with a change or none."""
    rng = np.random.default_rng(seed)
    size, total = LISTS[setup.shape], POPULATION[setup.shape]
    others = np.setdiff1d(np.arange(total), trained.lists)
    old = rng.choice(trained.lists, size // 2, replace=False)
    part = population.part(np.sort(np.r_[old, rng.choice(others, size - size // 2, replace=False)]))
    log = sessions(
        setup, part, setup.clicks, seed,
        eta=4 / 3 if change == "steeper curve" else 1.0, swapped=change == "ranker swapped",
    )  # fmt: skip
    lists = part[0]
    if change == "positions lost":
        log = _cut_off(log, 10)
    if change == "bots":
        log = _with_bots(log, rng)
    if change == "feature rescaled":
        lists = _rescaled(lists, next(iter(trained.reference.edges)))
    return local(log, lists)


def _cut_off(log: ClickLog, last: int) -> ClickLog:
    """Lose the rows of positions below the last."""
    frame = log.to_frame()
    return ClickLog.from_frame(frame[frame["position"] <= last])


def _with_bots(log: ClickLog, rng: np.random.Generator) -> ClickLog:
    """Make 5 % of the sessions those of a robot that follows nine links of ten."""
    robot = rng.uniform(size=log.sessions) < 0.05
    lengths = np.diff(log.ranking_offsets)[log.session_ranking]
    counts, clicks = [], []
    for i, own in enumerate(np.split(log.clicks, log.click_offsets[1:-1])):
        made = np.flatnonzero(rng.uniform(size=lengths[i]) < 0.9) if robot[i] else own
        counts.append(len(made))
        clicks.append(made)
    return replace(log, session_clicks=np.array(counts), clicks=np.concatenate(clicks))


def _rescaled(lists: RankingDataset, name: str) -> RankingDataset:
    """Double the feature that the model uses most: another unit."""
    features = lists.features.copy()
    features[:, lists.feature_names.index(name)] *= 2
    return replace(lists, features=features)


def one_log(
    setup: Setup, population: Population, trained: Trained, change: str, seed: int, first: int
) -> dict[str, Any]:
    """Return the verdicts of a log's windows, with the checks that raised an alarm."""
    watched = trained.reference.watching(trained.watched)
    found, before = [], None
    if first > 1:
        before = depths_of(window(setup, population, trained, "", 10 * seed + first - 1))
    for number in (first, first + 1):
        part = window(setup, population, trained, change, 10 * seed + number)
        now = replace(summarise(part, watched, str(number)), before=before)
        one = judge(now, trained.reference, number)
        before = one.summary.depths
        found.append({"verdict": one.verdict, "checks": [r.check for r in one.reasons]})
        if change and one.reasons:
            break
    return {"windows": found}


def depths_of(log: PiecedLog) -> Depths:
    """Return what the state keeps of a quiet window."""
    scores = np.zeros(log.lists.docs)
    sums = log.pieces.total(lambda one: WindowSums.of(one, log.lists, scores, {}))
    return Depths.of(sums.units.keys, sums.column("clicks"), sums.column("depth"))


def jobs(logs: int, changed: int) -> Iterator[tuple[int, str, int]]:
    """Yield setup, change and number of every log."""
    for change in ("", *CHANGES):
        # lists of personal end at position 10
        numbers = [
            number
            for number, setup in enumerate(SETUPS)
            if change != "positions lost" or setup.shape != "personal"
        ]
        for number in numbers:
            for log in range(-(-(changed if change else logs) // len(numbers))):
                yield number, change, log


def run(out: Path, logs: int, changed: int, seed: int, first: int) -> None:
    """Measure the logs that are not in the journal yet."""
    done = {tuple(one["log"]) for one in _journal(out)}
    populations: dict[str, Population] = {}
    trained: dict[tuple[int, int], Trained] = {}
    left = [job for job in jobs(logs, changed) if job not in done]
    for setup_number, change, number in sorted(
        left, key=lambda job: (job[2] // LOGS_PER_REFERENCE, job[0])
    ):
        setup = SETUPS[setup_number]
        if setup.shape not in populations:
            populations[setup.shape] = Population(setup.shape)
        key = setup_number, number // LOGS_PER_REFERENCE
        base = 1_000_003 * (seed + 1) + 10_007 * setup_number
        if key not in trained:
            trained = {key: train(setup, populations[setup.shape], base + key[1])}
        started = time.perf_counter()
        own = base + 100 * (1 + number) + 10 * (["", *CHANGES].index(change))
        found = one_log(
            setup, populations[setup.shape], trained[key], change, own, first if change else 1
        )
        found |= {"log": [setup_number, change, number]}
        found["seconds"] = round(time.perf_counter() - started, 2)
        with out.open("a") as file:
            file.write(json.dumps(found) + "\n")


def _journal(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def table(out: Path) -> Iterator[str]:
    """Yield the rows of the table: alarms by setup and change."""
    found = _journal(out)
    yield "| lists | curve | clicks a window | no change | " + " | ".join(CHANGES) + " |"
    yield "| --- " * (4 + len(CHANGES)) + "|"
    for number, setup in [*enumerate(SETUPS), (-1, None)]:
        cells = []
        for change in ("", *CHANGES):
            own = [o for o in found if o["log"][0] in (number, *([] if setup else range(9)))]
            alarms = [
                any(w["checks"] for w in one["windows"]) for one in own if one["log"][1] == change
            ]
            cells.append(f"{sum(alarms)} of {len(alarms)}" if alarms else "–")
        name = [setup.shape, setup.curve, f"{setup.clicks:,}"] if setup else ["all", "", ""]
        yield f"| {' | '.join([*name, *cells])} |"


def reasons(out: Path) -> Iterator[str]:
    """Yield how often each check raised an alarm, by change."""
    for change in ("", *CHANGES):
        own = [one for one in _journal(out) if one["log"][1] == change]
        names = [{c for w in one["windows"] for c in w["checks"]} for one in own]
        counts = {c: sum(c in one for one in names) for c in sorted(set().union(*names))}
        yield f"{change or 'no change'}: {len(own)} logs, {counts}"


def main() -> None:
    """Measure, then print the table and which checks found what."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("monitor.jsonl"), help="the journal")
    parser.add_argument("--logs", type=int, default=200, help="stationary logs")
    parser.add_argument("--changed", type=int, default=40, help="logs of each change")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=3, help="number of the first changed window")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    run(given.out, given.logs, given.changed, given.seed, given.first)
    for line in (*table(given.out), "", *reasons(given.out)):
        print(line)


if __name__ == "__main__":
    main()
