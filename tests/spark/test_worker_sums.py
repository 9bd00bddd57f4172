import hmac
import socket
import threading
from contextlib import suppress

import numpy as np
import pytest
from spark_checks import SECRET, in_threads

from prsrank.spark import worker_sums
from prsrank.spark.worker_sums import LostWorker, WorkerSums, listen


def address_of(server):
    return server.getsockname()[:2]


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_all_workers_get_the_same_sums(workers):
    def work(sums):
        return [sums([sums.worker, 0.1 * sums.worker, turn]) for turn in range(20)]

    results = in_threads(workers, work)
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

    results = in_threads(3, work)
    assert results[1] == "gone"
    assert isinstance(results[0], LostWorker)
    assert isinstance(results[2], LostWorker)


def test_after_a_loss_there_are_no_more_sums():
    """What comes late would be taken for what was asked for next."""

    def work(sums):
        if sums.worker == 1:
            given_up.wait(10)
            sums([1.0])  # of what the other had sent before
        else:
            with pytest.raises(LostWorker, match="timed out"):
                sums([1.0])
            given_up.set()
        return sums([2.0])

    given_up = threading.Event()
    assert all(isinstance(one, LostWorker) for one in in_threads(2, work, timeout=0.2))


def test_what_is_given_is_what_is_taken_however_much_it_is():
    """More than sockets hold on their way, and nothing at all."""
    sizes = np.array([[0, 20_000_000, 1], [20_000_000, 5, 3_000_000], [4_000_000, 0, 0]])

    def given(worker, other):
        generator = np.random.default_rng([worker, other])
        return generator.bytes(sizes[worker, other])

    def work(sums):
        return sums.exchange(
            [given(sums.worker, other) for other in range(3)], sizes[:, sums.worker]
        )

    for number, result in enumerate(in_threads(3, work)):
        assert result == [given(other, number) for other in range(3)]


def test_nobody_answers():
    with listen("127.0.0.1") as gone:
        addresses = [address_of(gone)] * 2
    with listen("127.0.0.1") as server:
        with pytest.raises(LostWorker, match="cannot reach"):
            WorkerSums(1, addresses, server=server, secret=SECRET, timeout=1)
        with pytest.raises(LostWorker, match="cannot reach"):
            WorkerSums(0, addresses, server=server, secret=SECRET, timeout=0.2)


def meet(secret, *strangers):
    """Let strangers connect before worker 1 does; return the sum that worker 0 gets."""
    found = []
    with listen("127.0.0.1") as server, listen("127.0.0.1") as other:
        addresses = [address_of(server), address_of(other)]

        def first():
            with (
                suppress(LostWorker),
                WorkerSums(0, addresses, server=server, secret=SECRET, timeout=3) as sums,
            ):
                found.append(sums([1.0]).tolist())

        thread = threading.Thread(target=first)
        thread.start()
        opened = [socket.create_connection(addresses[0]) for _ in strangers]
        for stranger, said in zip(opened, strangers, strict=True):
            stranger.sendall(said)
        try:
            with WorkerSums(1, addresses, server=other, secret=secret, timeout=3) as sums:
                sums([2.0])
        finally:
            for stranger in opened:
                stranger.close()
            thread.join()
    return found


def test_strangers_are_dropped_and_the_workers_go_on(monkeypatch):
    monkeypatch.setattr(worker_sums, "_STRANGER", 0.2)
    number = (1).to_bytes(4, "little")
    guess = number + bytes(32) + hmac.digest(b"a guess", number + bytes(64), "sha256")
    said = [b"", number, guess, b"GET / HTTP/1.1\r\n\r\n" * 9]
    assert meet(SECRET, *said) == [[3.0]]


def test_neither_side_trusts_one_without_the_secret(monkeypatch):
    monkeypatch.setattr(worker_sums, "_STRANGER", 0.2)
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
        addresses = [address_of(impostor)] * 2
        with pytest.raises(LostWorker, match="not worker 0 of this fit"):
            WorkerSums(1, addresses, server=impostor, secret=SECRET, timeout=3)
        thread.join()


@pytest.mark.parametrize("number", [2, 7])
def test_a_worker_with_the_number_of_none_is_dropped(number):
    """As another stage's could be, if it had the secret."""
    with listen("127.0.0.1") as server, listen("127.0.0.1") as another:
        addresses = [address_of(server)] * 9

        def other():
            with suppress(LostWorker):
                WorkerSums(number, addresses, server=another, secret=SECRET, timeout=1).close()

        thread = threading.Thread(target=other)
        thread.start()
        with pytest.raises(LostWorker, match="timed out"):
            WorkerSums(0, addresses[:2], server=server, secret=SECRET, timeout=0.5)
        thread.join()


def test_a_connection_that_is_led_to_another_worker_is_refused():
    """The proof names both ends: what worker 2 says to worker 0 is of no use with worker 1."""

    def work(sums):
        return "met"

    def astray(number, addresses):
        return [addresses[1], addresses[0], addresses[2]] if number == 2 else addresses

    results = in_threads(3, work, timeout=1, told=astray)
    assert all(isinstance(result, LostWorker) for result in results)
    assert "closed" in str(results[2])


def test_several_workers_need_a_secret():
    with listen("127.0.0.1") as server, pytest.raises(ValueError, match="secret"):
        WorkerSums(0, [address_of(server)] * 2, server=server)
