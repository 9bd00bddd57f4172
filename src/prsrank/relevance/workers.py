"""Workers that hold lists together: each has whole queries, and all know the sums over all."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from prsrank.types import SumOver


@dataclass(frozen=True)
class Workers:
    """All workers of a training, and which of them this is; by default there is no other.

    Attributes:
        number: this worker's, from 0.
        machines: "address:port" of every worker, for LightGBM's own sockets.
        sums: adds up numbers over all workers; all get the same bits.
        timeout: minutes that LightGBM waits for the others to come.

    >>> Workers().network, Workers().sums([1.0, 2.0]).tolist()
    ({}, [1.0, 2.0])
    """

    number: int = 0
    machines: tuple[str, ...] = ("-",)
    sums: SumOver = np.asarray
    timeout: int = 2

    @property
    def network(self) -> dict[str, Any]:
        """LightGBM's options for trees that all workers grow together."""
        if len(self.machines) == 1:
            return {}
        return {
            "machines": ",".join(self.machines),
            "num_machines": len(self.machines),
            "local_listen_port": int(self.machines[self.number].rpartition(":")[2]),
            "time_out": self.timeout,
            "tree_learner": "data",
            "pre_partition": True,
        }


ALONE = Workers()
