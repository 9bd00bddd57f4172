"""Sums over workers by plain sockets: worker 0 adds up what the others send and tells them.

Whoever connects must know the secret of the fit, and so must worker 0: each proves it by an HMAC of
a challenge of the other's. A stranger is dropped, and the workers go on. What is sent afterwards is
not encrypted.
"""

import hmac
import secrets
import socket
import struct
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from prsrank.types import Floats

_NUMBER = struct.Struct("<I")
_NONCE, _PROOF = 32, 32
# Somebody who connects and says nothing must not keep the workers waiting for long.
_PATIENCE = 5.0


class LostWorker(RuntimeError):
    """Another worker is gone, or does not answer in time."""


def listen(host: str) -> socket.socket:
    """Return a socket that listens on any free port of an address."""
    server = socket.create_server((host, 0), backlog=128)
    return server


def free_port(host: str) -> int:
    """Return a port that is free now."""
    with socket.create_server((host, 0)) as server:
        port: int = server.getsockname()[1]
    return port


class WorkerSums:
    """Adds up arrays over all workers, in the order of the workers, so that all get the same bits.

    Args:
        worker: this worker.
        workers: how many there are.
        server: worker 0's listening socket; None on the others.
        address: host and port of it.
        secret: what all workers of this fit know, and nobody else.
        timeout: seconds to wait for another worker.

    >>> with WorkerSums(0, 1) as sums:
    ...     sums([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """

    def __init__(
        self,
        worker: int,
        workers: int,
        *,
        server: socket.socket | None = None,
        address: tuple[str, int] | None = None,
        secret: bytes = b"",
        timeout: float = 120.0,
    ) -> None:
        self.worker, self.workers = worker, workers
        self._peers: list[socket.socket] = []
        if workers == 1:
            return
        if not secret:
            raise ValueError("several workers need a secret")
        try:
            if server is not None:
                self._accept(server, secret, timeout)
            elif address is not None:
                self._connect(address, secret, timeout)
        except OSError as error:
            self.close()
            raise LostWorker(f"worker {worker} cannot reach the others: {error}") from error

    def _connect(self, address: tuple[str, int], secret: bytes, timeout: float) -> None:
        peer = socket.create_connection(address, timeout=timeout)
        self._peers = [peer]
        challenge, own = _receive(peer, _NONCE), secrets.token_bytes(_NONCE)
        number = _NUMBER.pack(self.worker)
        peer.sendall(number + own + _proof(secret, b"worker", number, challenge, own))
        if not hmac.compare_digest(_receive(peer, _PROOF), _proof(secret, b"first", own)):
            raise ConnectionError("what answers there is not worker 0 of this fit")

    def _accept(self, server: socket.socket, secret: bytes, timeout: float) -> None:
        end = time.monotonic() + timeout
        known: dict[int, socket.socket] = {}
        try:
            while len(known) < self.workers - 1:
                server.settimeout(max(end - time.monotonic(), 0.001))
                peer, _ = server.accept()
                number = self._welcome(peer, secret)
                if number is None or number in known:
                    peer.close()
                    continue
                peer.settimeout(timeout)
                known[number] = peer
        finally:
            self._peers = [known[worker] for worker in sorted(known)]

    def _welcome(self, peer: socket.socket, secret: bytes) -> int | None:
        """Return the number of a worker that proves to be one of this fit; None for a stranger."""
        challenge = secrets.token_bytes(_NONCE)
        peer.settimeout(_PATIENCE)
        with suppress(OSError):
            peer.sendall(challenge)
            told = _receive(peer, _NUMBER.size + _NONCE + _PROOF)
            number, own = told[: _NUMBER.size], told[_NUMBER.size : -_PROOF]
            if not hmac.compare_digest(
                told[-_PROOF:], _proof(secret, b"worker", number, challenge, own)
            ):
                return None
            peer.sendall(_proof(secret, b"first", own))
            worker: int = _NUMBER.unpack(number)[0]
            return worker if 0 < worker < self.workers else None
        return None

    def __call__(self, values: npt.ArrayLike) -> Floats:
        """Return the sum over workers; every worker must call with as many values.

        Raises:
            LostWorker: if another worker is gone.
        """
        total = np.array(values, np.float64)
        try:
            if self.worker == 0:
                for peer in self._peers:
                    total += np.frombuffer(_receive(peer, total.nbytes)).reshape(total.shape)
                for peer in self._peers:
                    peer.sendall(total.tobytes())
            elif self._peers:
                self._peers[0].sendall(total.tobytes())
                received = np.frombuffer(_receive(self._peers[0], total.nbytes))
                total = received.reshape(total.shape).copy()
        except OSError as error:
            raise LostWorker(f"worker {self.worker} lost another worker: {error}") from error
        return total

    def close(self) -> None:
        """Close the connections."""
        for peer in self._peers:
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


def _proof(secret: bytes, *parts: bytes) -> bytes:
    return hmac.digest(secret, b"".join(parts), "sha256")


def _receive(peer: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = peer.recv(size - len(parts))
        if not part:
            raise ConnectionError("the connection was closed")
        parts += part
    return parts
