"""Designs of randomised sessions: how the production ranking is disturbed."""

from dataclasses import dataclass

from prsrank.errors import InputError

DESIGNS = {"uniform": 0, "top-k": 1, "adjacent": 2, "pivot": 3}
"""The designs by name, with the number by which kernels know them."""

_DEFAULT_K = 10


@dataclass(frozen=True)
class Design:
    """How a share of the sessions is randomised.

    Args:
        name: "uniform" shuffles the list, "top-k" its first `k` docs, "adjacent" lets the
            docs at a random position below `k` and the next one change places with
            probability 1/2, "pivot" those at position 1 and at a random one up to `k`.
        share: the share of sessions that are randomised.
        k: default 10; of no meaning for "uniform".

    >>> Design("adjacent", share=0.1, k=3).marks
    ('', 'swap:1:2', 'swap:2:3')
    >>> Design("pivot", share=0.1, k=3).marks
    ('', 'swap:1:2', 'swap:1:3')
    """

    name: str = "uniform"
    share: float = 0.0
    k: int | None = None

    def __post_init__(self) -> None:
        if self.name not in DESIGNS:
            raise InputError(f"unknown design '{self.name}'; there are: {', '.join(DESIGNS)}")
        if not 0 <= self.share <= 1:
            raise InputError(f"the randomised share must be in [0, 1], not {self.share}")
        if self.k is None:
            object.__setattr__(self, "k", _DEFAULT_K)
        elif self.name == "uniform":
            raise InputError("design 'uniform' shuffles whole lists and takes no k")
        elif self.k < 2:
            raise InputError(f"design '{self.name}' needs k of at least 2, not {self.k}")

    @property
    def number(self) -> int:
        """The design's number in kernels."""
        return DESIGNS[self.name]

    @property
    def reach(self) -> int:
        """The last position that the design may change; 0 for all of them."""
        return 0 if self.name == "uniform" or self.k is None else self.k

    @property
    def variants(self) -> int:
        """How many rankings each ranking has by swaps: itself, and two for each pair of positions."""
        return 1 + 2 * (self.reach - 1) if self.name in ("adjacent", "pivot") and self.share else 1

    @property
    def marks(self) -> tuple[str, ...]:
        """The log's `designs`: "" for sessions left alone, then one mark for each kind."""
        if self.share == 0:
            return ("",)
        if self.name == "uniform":
            return ("", "uniform")
        if self.name == "top-k":
            return ("", f"top-k:{self.k}")
        firsts = [k if self.name == "adjacent" else 1 for k in range(1, self.reach)]
        return (
            "",
            *(f"swap:{a}:{b}" for a, b in zip(firsts, range(2, self.reach + 1), strict=True)),
        )
