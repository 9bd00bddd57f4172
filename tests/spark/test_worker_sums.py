import threading

import numpy as np
import pytest

from prsrank.spark.worker_sums import LostRank, RankSums, listen


def run_ranks(ranks, work):
    """Run `work(sums)` as every rank, in threads; return the results by rank."""
    results = [None] * ranks
    with listen("127.0.0.1") as server:
        address = server.getsockname()[:2]

        def rank(number):
            own = server if number == 0 else None
            with RankSums(number, ranks, server=own, address=address, timeout=5) as sums:
                try:
                    results[number] = work(sums)
                except LostRank as error:
                    results[number] = error

        threads = [threading.Thread(target=rank, args=(r,)) for r in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_all_ranks_get_the_same_sums(ranks):
    def work(sums):
        return [sums([sums.rank, 0.1 * sums.rank, turn]) for turn in range(20)]

    results = run_ranks(ranks, work)
    for turn in range(20):
        same = {tuple(result[turn]) for result in results}
        assert len(same) == 1
        numbers = np.arange(ranks)
        np.testing.assert_allclose(
            same.pop(), [numbers.sum(), 0.1 * numbers.sum(), turn * ranks], rtol=1e-12
        )


def test_a_rank_that_goes_is_noticed():
    def work(sums):
        if sums.rank == 1:
            return "gone"
        sums([1.0])
        return sums([1.0])

    results = run_ranks(3, work)
    assert results[1] == "gone"
    assert isinstance(results[0], LostRank)
    assert isinstance(results[2], LostRank)


def test_nobody_answers():
    with listen("127.0.0.1") as server:
        address = server.getsockname()[:2]
    with pytest.raises(LostRank, match="cannot reach"):
        RankSums(1, 2, address=address, timeout=1)
    with listen("127.0.0.1") as server, pytest.raises(LostRank, match="cannot reach"):
        RankSums(0, 2, server=server, timeout=0.2)
