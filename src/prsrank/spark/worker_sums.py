"""Sums over workers by plain sockets, one between any two of them.

Whoever connects must know the secret of the fit, and so must who is connected to: each proves it by
an HMAC of a challenge of the other's. A stranger is dropped, and the workers go on. What is sent
afterwards is not encrypted.
"""

import hmac
import secrets
import select
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from prsrank.types import Floats

_NUMBER = struct.Struct("<I")
_NONCE, _PROOF = 32, 32
# Somebody who connects and says nothing must not keep the workers waiting for long.
_STRANGER = 5.0


class LostWorker(RuntimeError):
    """Another worker is gone, or does not answer in time."""


def listen(host: str) -> socket.socket:
    """Return a socket that listens on any free port of an address."""
    return socket.create_server((host, 0), backlog=128)


class WorkerSums:
    """Adds up arrays over all workers, in the order of the workers, so that all get the same bits.

    Args:
        worker: this worker.
        addresses: host and port that each worker listens on.
        server: the socket that this one listens on; it can be closed once the workers have met.
        secret: what all workers of this fit know, and nobody else.
        timeout: seconds to wait for another worker.
        patience: seconds to wait until all have met; default: the same.

    >>> with WorkerSums() as sums:
    ...     sums([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """

    def __init__(
        self,
        worker: int = 0,
        addresses: Sequence[tuple[str, int]] = (("", 0),),
        *,
        server: socket.socket | None = None,
        secret: bytes = b"",
        timeout: float = 120.0,
        patience: float | None = None,
    ) -> None:
        self.worker, self.workers = worker, len(addresses)
        self._secret, self._timeout = secret, timeout
        self._patience = timeout if patience is None else patience
        self._peers: dict[int, socket.socket] = {}
        if self.workers == 1:
            return
        if server is None or not secret:
            raise ValueError("several workers need a socket and a secret")
        try:
            for other in range(worker):
                self._connect(other, addresses[other])
            self._accept(server)
            for peer in self._peers.values():
                peer.settimeout(timeout)
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            self.close()
            raise LostWorker(f"worker {worker} cannot reach the others: {error}") from error

    def _connect(self, other: int, address: tuple[str, int]) -> None:
        peer = self._peers[other] = socket.create_connection(address, timeout=self._timeout)
        peer.settimeout(self._patience)
        challenge, own = _receive(peer, _NONCE), secrets.token_bytes(_NONCE)
        number, told = _NUMBER.pack(self.worker), _NUMBER.pack(other)
        peer.sendall(number + own + self._proof(b"from", number, told, challenge, own))
        proof = self._proof(b"to", number, told, challenge, own)
        if not hmac.compare_digest(_receive(peer, _PROOF), proof):
            raise ConnectionError(f"what answers there is not worker {other} of this fit")

    def _accept(self, server: socket.socket) -> None:
        end = time.monotonic() + self._patience
        while len(self._peers) < self.workers - 1:
            server.settimeout(max(end - time.monotonic(), 0.001))
            peer, _ = server.accept()
            number = self._welcome(peer)
            if number is None or number in self._peers:
                peer.close()
            else:
                self._peers[number] = peer

    def _welcome(self, peer: socket.socket) -> int | None:
        """Return the number of a worker that proves to be one of this fit; None for a stranger."""
        challenge = secrets.token_bytes(_NONCE)
        peer.settimeout(_STRANGER)
        with suppress(OSError):
            peer.sendall(challenge)
            told = _receive(peer, _NUMBER.size + _NONCE + _PROOF)
            number, own = told[: _NUMBER.size], told[_NUMBER.size : -_PROOF]
            said = number, _NUMBER.pack(self.worker), challenge, own
            if not hmac.compare_digest(told[-_PROOF:], self._proof(b"from", *said)):
                return None
            peer.sendall(self._proof(b"to", *said))
            worker: int = _NUMBER.unpack(number)[0]
            return worker if self.worker < worker < self.workers else None
        return None

    def _proof(self, *parts: bytes) -> bytes:
        return hmac.digest(self._secret, b"".join(parts), "sha256")

    def __call__(self, values: npt.ArrayLike) -> Floats:
        """Return the sum over workers; every worker must call with as many values.

        Raises:
            LostWorker: if another worker is gone.
        """
        own = np.array(values, np.float64)
        first, *others = self.exchange([own.tobytes()] * self.workers, [own.nbytes] * self.workers)
        total = np.frombuffer(first).copy()
        for other in others:
            total += np.frombuffer(other)
        return total.reshape(own.shape)

    def exchange(self, given: Sequence[bytes], sizes: Sequence[int]) -> list[bytes | bytearray]:
        """Give and take bytes; every worker must call.

        Args:
            given: what each worker gets of this one.
            sizes: how many bytes this one gets of each.

        Returns:
            What this one got of each worker, of itself too.

        Raises:
            LostWorker: if another worker is gone.
        """
        taken: list[bytes | bytearray] = [bytearray(size) for size in sizes]
        taken[self.worker] = given[self.worker]
        peers = self._peers.items()
        # sent and received by turns, as it comes: two that only send would wait for each other
        giving = {peer: memoryview(given[other]) for other, peer in peers if given[other]}
        taking = {peer: memoryview(taken[other]) for other, peer in peers if taken[other]}
        try:
            while giving or taking:
                ready = select.select(taking, giving, (), self._timeout)
                if not any(ready):
                    raise TimeoutError("timed out")
                for peer in ready[0]:
                    _move(taking, peer, peer.recv_into(taking[peer]))
                for peer in ready[1]:
                    _move(giving, peer, peer.send(giving[peer]))
        except (OSError, ValueError) as error:  # ValueError: a socket that was closed before
            self.close()  # the others need not find out for themselves
            raise LostWorker(f"worker {self.worker} lost another worker: {error}") from error
        return taken

    def close(self) -> None:
        """Close the connections."""
        for peer in self._peers.values():
            peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _move(left: dict[socket.socket, memoryview], peer: socket.socket, count: int) -> None:
    """Note that so many bytes have gone their way."""
    if not count:
        raise ConnectionError("the connection was closed")
    left[peer] = left[peer][count:]
    if not left[peer]:
        del left[peer]


def _receive(peer: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = peer.recv(size - len(parts))
        if not part:
            raise ConnectionError("the connection was closed")
        parts += part
    return parts
