import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from prsrank import InputError
from prsrank.threads import (
    even_pieces,
    for_each_piece,
    map_in_order,
    one_blas_thread,
    thread_count,
)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_results_come_in_order(threads):
    def slow_first(i):
        time.sleep(0.01 * (i % 3 == 0))
        return i * i

    assert list(map_in_order(slow_first, range(20), threads=threads)) == [i * i for i in range(20)]


def test_a_stream_is_not_read_far_ahead():
    drawn = []

    def source():
        for i in range(100):
            drawn.append(i)
            yield i

    results = map_in_order(lambda i: i, source(), threads=2)
    next(results)
    assert len(drawn) <= 5


def test_errors_reach_the_caller():
    with pytest.raises(ZeroDivisionError):
        list(map_in_order(lambda i: 1 // i, [1, 0, 1], threads=2))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(1, 8))
def test_pieces_cover_every_list_once(lengths, pieces):
    offsets = np.cumsum([0, *lengths])
    runs = even_pieces(offsets, pieces)
    assert [q for a, b in runs for q in range(a, b)] == list(range(len(lengths)))
    assert len(runs) <= pieces


@pytest.mark.parametrize("docs", [10, 40_000])
def test_every_piece_is_called(docs):
    offsets = np.arange(docs + 1)
    called, lock = np.zeros(docs, int), threading.Lock()

    def kernel(start, stop):
        with lock:
            called[start:stop] += 1

    for_each_piece(kernel, offsets, threads=3)
    assert (called == 1).all()


def test_an_error_in_a_piece_reaches_the_caller_and_the_rest_still_works():
    offsets = np.arange(40_001)

    def kernel(start, stop):
        if start <= 20_000 < stop:
            raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            for_each_piece(kernel, offsets, threads=3)
    for_each_piece(lambda start, stop: None, offsets, threads=3)


def test_pieces_within_pieces_do_not_wait_for_each_other():
    offsets = np.arange(40_001)
    done, lock = [], threading.Lock()

    def inner(start, stop):
        with lock:
            done.append(stop - start)

    def outer(start, stop):
        for_each_piece(inner, offsets, threads=4)

    for_each_piece(outer, offsets, threads=4)
    assert sum(done) % 40_000 == 0
    assert sum(done) > 0


def test_thread_count():
    assert thread_count() >= 1
    with pytest.raises(InputError, match="at least 1"):
        thread_count(0)


def test_matrix_products_in_one_thread():
    def threads():
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        assert one_blas_thread()(threads)() == {1}
        assert threads() == before
