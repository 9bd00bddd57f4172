"""Kernels of a fit's later steps, compiled by a second process while the first steps run.

numba compiles one kernel at a time in a process, and keeps what it compiled in files that all
processes share: on a fresh install a second process does half of the work meanwhile, and last
makes what the charts of a report need.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.caching import IndexDataCacheFile

from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log import ClickLog
from prsrank.losses.lambdas import LambdaObjective
from prsrank.metrics.ranking import metric
from prsrank.metrics.tie_groups import sort_kernel
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw
from prsrank.rankers.lambdamart import LambdaMART
from prsrank.rankers.lightgbm_position import expand_sessions
from prsrank.report.html import chart_library
from prsrank.threads import thread_count

_LISTS, _DOCS, _SESSIONS = 20, 5, 20
_SAVE: Any = IndexDataCacheFile.save


def compile_ahead() -> None:
    """Start the second process, where there is a core for it and kernels are still missing.

    Nothing waits for it and nothing depends on it: a kernel that it has not compiled when it is
    needed is compiled then.
    """
    alone = thread_count() < 2 or os.environ.get("OMP_NUM_THREADS") == "1"
    # one of the last that it compiles
    if alone or list(Path(str(sort_kernel.stats.cache_path)).glob("*.sort_kernel-*.nbi")):
        return
    save_in_turn()
    subprocess.Popen(  # noqa: S603  # this very module
        [sys.executable, "-m", __name__],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def use_later_kernels() -> None:
    """Read a log of no meaning, then take the later half of the steps that a fit takes.

    What stands between is left to the first process, so that the two never compile the same.
    """
    lists, log = _tiny()
    options, scores = LambdaMART().pair_options, np.zeros(lists.docs)
    # no tree is grown: LightGBM takes a second to import
    posterior: Any = OuterPairs.from_relevance(lists, scores, **options)
    LambdaObjective(posterior)(scores)
    LambdaObjective(PairSet.from_log(log, lists, PowerLaw(), "prs", **options))(scores)
    expand_sessions(log, lists)
    PairSet.from_labels(lists, **options)
    for name in ("ndcg@10", "map", "mrr"):
        metric(name)(lists.relevance, scores, lists.offsets)
    chart_library()


def save_in_turn() -> None:
    """Let this process save kernels when no other does.

    numba would give two variants of a kernel that are saved at once the same file, and a process
    that then loads one for the other may do anything.
    """
    IndexDataCacheFile.save = _save_in_turn  # type: ignore[method-assign]


def _save_in_turn(cache: Any, key: Any, data: Any) -> None:
    with open(f"{cache._index_path}.lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _SAVE(cache, key, data)


def _tiny() -> tuple[RankingDataset, ClickLog]:
    rng, count = np.random.default_rng(0), _LISTS * _DOCS
    values = rng.normal(size=(count, 3)).astype(np.float32)
    labels = rng.integers(0, 3, count).astype(np.float32)
    lists = RankingDataset(values, np.arange(0, count + 1, _DOCS), labels=labels)
    docs = np.tile(np.arange(count), _SESSIONS)
    log = ClickLog.from_frame(
        {
            "query_id": docs // _DOCS,
            "session_id": np.arange(len(docs)) // _DOCS,
            "doc_id": docs % _DOCS,
            "position": docs % _DOCS + 1,
            "click": rng.random(len(docs)) < 0.5,
        }
    )
    return lists, log


if __name__ == "__main__":
    save_in_turn()
    use_later_kernels()
