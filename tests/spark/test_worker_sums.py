import hmac
import socket
import threading
from contextlib import suppress

import numpy as np
import pytest

from prsrank.spark import worker_sums
from prsrank.spark.worker_sums import LostWorker, WorkerSums, listen

SECRET = b"of this fit"


def run_workers(workers, work):
    """Run `work(sums)` as every worker, in threads; return the results by worker."""
    results = [None] * workers
    with listen("127.0.0.1") as server:
        address = server.getsockname()[:2]

        def worker(number):
            own = server if number == 0 else None
            with WorkerSums(
                number, workers, server=own, address=address, secret=SECRET, timeout=5
            ) as sums:
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
        WorkerSums(1, 2, address=address, secret=SECRET, timeout=1)
    with listen("127.0.0.1") as server, pytest.raises(LostWorker, match="cannot reach"):
        WorkerSums(0, 2, server=server, secret=SECRET, timeout=0.2)


def meet(secret, *strangers):
    """Let strangers connect before worker 1 does; return the sum that worker 0 gets."""
    found = []
    with listen("127.0.0.1") as server:
        address = server.getsockname()[:2]

        def first():
            with (
                suppress(LostWorker),
                WorkerSums(0, 2, server=server, secret=SECRET, timeout=3) as sums,
            ):
                found.append(sums([1.0]).tolist())

        thread = threading.Thread(target=first)
        thread.start()
        opened = [socket.create_connection(address) for _ in strangers]
        for stranger, said in zip(opened, strangers, strict=True):
            stranger.sendall(said)
        try:
            with WorkerSums(1, 2, address=address, secret=secret, timeout=3) as sums:
                sums([2.0])
        finally:
            for stranger in opened:
                stranger.close()
            thread.join()
    return found


def test_strangers_are_dropped_and_the_workers_go_on(monkeypatch):
    monkeypatch.setattr(worker_sums, "_PATIENCE", 0.2)
    number = (1).to_bytes(4, "little")
    guess = number + bytes(32) + hmac.digest(b"a guess", number + bytes(64), "sha256")
    said = [b"", number, guess, b"GET / HTTP/1.1\r\n\r\n" * 9]
    assert meet(SECRET, *said) == [[3.0]]


def test_neither_side_trusts_one_without_the_secret(monkeypatch):
    monkeypatch.setattr(worker_sums, "_PATIENCE", 0.2)
    with pytest.raises(LostWorker, match="cannot reach"):
        meet(b"another")
    with listen("127.0.0.1") as impostor:

        def answers():
            peer, _ = impostor.accept()
            with peer:
                peer.sendall(bytes(32))
                peer.recv(1000)
                peer.sendall(bytes(32))

        thread = threading.Thread(target=answers)
        thread.start()
        with pytest.raises(LostWorker, match="not worker 0 of this fit"):
            WorkerSums(1, 2, address=impostor.getsockname()[:2], secret=SECRET, timeout=3)
        thread.join()


@pytest.mark.parametrize("number", [0, 2, 7])
def test_a_worker_with_the_number_of_none_is_dropped(number):
    """As another stage's could be, if it had the secret."""
    with listen("127.0.0.1") as server:
        address = server.getsockname()[:2]

        def other():
            with (
                suppress(LostWorker),
                WorkerSums(number or 9, 9, address=address, secret=SECRET, timeout=1),
            ):
                pass

        thread = threading.Thread(target=other)
        thread.start()
        with pytest.raises(LostWorker, match="timed out"):
            WorkerSums(0, 2, server=server, secret=SECRET, timeout=0.5)
        thread.join()


def test_several_workers_need_a_secret():
    with pytest.raises(ValueError, match="secret"):
        WorkerSums(0, 2)
