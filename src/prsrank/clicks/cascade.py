"""The cascade click model: users read from the top and may stop."""

from dataclasses import dataclass

import numpy as np

from prsrank.clicks.walk import Users, WalkTables, check_share
from prsrank.errors import InputError


@dataclass(frozen=True)
class CascadeModel(Users):
    r"""Clicks of users who read from the top until satisfied or tired (a DBN).

    An examined doc is clicked with probability 1 - mu if relevant and mu if not. A clicked
    doc satisfies, and so ends the session, with satisfaction[r]. An unsatisfied user goes on
    to the next position with probability gamma. satisfaction = (1, 1) and gamma = 1 is the
    cascade model of Craswell et al.: one click at most.

    Args:
        mu: noise of the attraction, in [0, 0.5).
        satisfaction: P(satisfied | clicked) of an irrelevant and of a relevant doc.
        gamma: P(going on | not satisfied).
        cutoff: show only the first `cutoff` docs.

    >>> model = CascadeModel(mu=0.1, satisfaction=(1, 1), gamma=1)
    >>> model.click_probabilities([1, 0, 1], [1, 2, 3]).round(3).tolist()
    [0.9, 0.01, 0.081]

    References:
        Chapelle, Zhang: A dynamic Bayesian network click model for web search ranking.
        WWW 2009.
    """

    mu: float = 0.1
    satisfaction: tuple[float, float] = (0.1, 0.9)
    gamma: float = 0.9
    cutoff: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.satisfaction) != 2:
            raise InputError("satisfaction needs two values: of an irrelevant and a relevant doc")
        irrelevant, relevant = self.satisfaction
        check_share("satisfaction of an irrelevant doc", irrelevant)
        check_share("satisfaction of a relevant doc", relevant)
        check_share("gamma", self.gamma)
        object.__setattr__(self, "satisfaction", (float(irrelevant), float(relevant)))

    def tables(self, depth: int) -> WalkTables:
        """Return what a user does at positions 1 to `depth`."""
        every = np.ones((2, depth))
        unsatisfied = 1 - np.array(self.satisfaction)[:, None]
        return WalkTables(
            click=every * np.array([[self.mu], [1 - self.mu]]),
            stop_after_click=every * (1 - unsatisfied * self.gamma),
            stop_after_skip=every * (1 - self.gamma),
        )
