"""What tests of Spark share: a small session, and what it means to be equal."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest

from prsrank.errors import InputError
from prsrank.spark.session import find_java, import_pyspark
from prsrank.spark.worker_sums import LostWorker, WorkerSums, listen

# What the second compiler of Java gains is less than it costs on logs as small as these.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": "2",
}


def require_spark():
    """Skip, with the reason, where Spark cannot run; on continuous integration it has to."""
    try:
        import_pyspark()
        find_java()
    except InputError as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))


SECRET = b"of this fit"


def in_threads(workers, work, timeout=5, told=lambda number, addresses: addresses):
    """Run `work(sums)` as every worker, in threads; return what each gives, or how it ends.

    `told` changes the addresses that a worker is told.
    """
    with ExitStack() as stack:
        servers = [stack.enter_context(listen("127.0.0.1")) for _ in range(workers)]
        addresses = [server.getsockname()[:2] for server in servers]

        def worker(number):
            options = {"server": servers[number], "secret": SECRET, "timeout": timeout}
            try:
                with WorkerSums(number, told(number, addresses), **options) as sums:
                    return work(sums)
            except LostWorker as error:
                return error

        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(worker, range(workers)))


def ending_at(sums, last):
    """Let worker 1 end when it is to give and take for the last time; return a list of all times."""
    exchange, calls = sums.exchange, []

    def counted(*what):
        calls.append(what)
        if sums.worker == 1 and len(calls) == last:
            sums.close()
            raise MemoryError("no room")
        return exchange(*what)

    sums.exchange = counted
    return calls


def trees_of(text):
    """Splits and values. Workers estimate the counts of docs from hessians; nothing uses them."""
    text = text if isinstance(text, str) else text.booster_.model_to_string()
    trees = text[text.index("Tree=0") : text.index("end of trees")]
    estimated = ("leaf_count", "internal_count", "tree_sizes")
    return [line for line in trees.splitlines() if not line.startswith(estimated)]


def close(one, other, what="", atol=1e-12):
    np.testing.assert_allclose(other, one, rtol=1e-9, atol=atol, err_msg=what)


def same_curve(one, other):
    """Propensities, intervals and clicks, and what is said of them."""
    for name in ("propensity", "low", "high", "clicks"):
        close(getattr(one, name), getattr(other, name))
    assert (one.method, one.verdict) == (other.method, other.verdict)
    assert one.contexts.keys() == other.contexts.keys()
    for name, curve in one.contexts.items():
        same_curve(curve, other.contexts[name])


def same_evaluation(one, other):
    """Estimates, differences and diagnostics, with their intervals, to 1e-9."""
    assert one.warnings == other.warnings
    assert one.left_out == other.left_out
    for name in ("estimates", "differences", "diagnostics"):
        mine, yours = (getattr(found.evaluation, name) for found in (one, other))
        assert len(mine) == len(yours) > 0
        for a, b in zip(mine, yours, strict=True):
            for key, value in vars(a).items():
                if isinstance(value, float):
                    close(value, getattr(b, key), f"{name}: {key} of {a}")
                else:
                    assert getattr(b, key) == value, (a, b)


def sessions_of(log):
    """Return the (query, session) pairs of a log on any engine."""

    def of_piece(piece):  # made here: tasks need not find this file
        queries = piece.query_ids[piece.ranking_query[piece.session_ranking]]
        return tuple(zip(queries.tolist(), piece.session_ids.tolist(), strict=True))

    found = log.pieces.total(of_piece)
    assert len(set(found)) == len(found)
    return set(found)
