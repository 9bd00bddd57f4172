import threading

import numpy as np
import pytest

from prsrank.spark.worker_sums import LostWorker, WorkerSums, listen


def run_workers(workers, work):
    """Run `work(sums)` as every worker, in threads; return the results by worker."""
    results = [None] * workers
    with listen("127.0.0.1") as server:
        address = server.getsockname()[:2]

        def worker(number):
            own = server if number == 0 else None
            with WorkerSums(number, workers, server=own, address=address, timeout=5) as sums:
                try:
                    results[number] = work(sums)
                except LostWorker as error:
                    results[number] = error

        threads = [threading.Thread(target=worker, args=(r,)) for r in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_all_workers_get_the_same_sums(workers):
    def work(sums):
        return [sums([sums.worker, 0.1 * sums.worker, turn]) for turn in range(20)]

    results = run_workers(workers, work)
    for turn in range(20):
        same = {tuple(result[turn]) for result in results}
        assert len(same) == 1
        numbers = np.arange(workers)
        np.testing.assert_allclose(
            same.pop(), [numbers.sum(), 0.1 * numbers.sum(), turn * workers], rtol=1e-12
        )


def test_a_worker_that_goes_is_noticed():
    def work(sums):
        if sums.worker == 1:
            return "gone"
        sums([1.0])
        return sums([1.0])

    results = run_workers(3, work)
    assert results[1] == "gone"
    assert isinstance(results[0], LostWorker)
    assert isinstance(results[2], LostWorker)


def test_nobody_answers():
    with listen("127.0.0.1") as server:
        address = server.getsockname()[:2]
    with pytest.raises(LostWorker, match="cannot reach"):
        WorkerSums(1, 2, address=address, timeout=1)
    with listen("127.0.0.1") as server, pytest.raises(LostWorker, match="cannot reach"):
        WorkerSums(0, 2, server=server, timeout=0.2)
