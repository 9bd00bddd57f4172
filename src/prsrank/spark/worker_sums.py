"""Sums over workers by plain sockets: worker 0 adds up what the others send and tells them."""

import socket
import struct
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from prsrank.types import Floats

_LENGTH = struct.Struct("<I")


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
        timeout: float = 120.0,
    ) -> None:
        self.worker, self.workers = worker, workers
        self._peers: list[socket.socket] = []
        try:
            if workers == 1:
                return
            if server is not None:
                self._accept(server, timeout)
            elif address is not None:
                peer = socket.create_connection(address, timeout=timeout)
                peer.sendall(_LENGTH.pack(worker))
                self._peers = [peer]
        except OSError as error:
            self.close()
            raise LostWorker(f"worker {worker} cannot reach the others: {error}") from error

    def _accept(self, server: socket.socket, timeout: float) -> None:
        server.settimeout(timeout)
        known: dict[int, socket.socket] = {}
        while len(known) < self.workers - 1:
            peer, _ = server.accept()
            peer.settimeout(timeout)
            known[_LENGTH.unpack(_receive(peer, _LENGTH.size))[0]] = peer
        self._peers = [known[worker] for worker in sorted(known)]

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


def _receive(peer: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = peer.recv(size - len(parts))
        if not part:
            raise ConnectionError("the connection was closed")
        parts += part
    return parts
