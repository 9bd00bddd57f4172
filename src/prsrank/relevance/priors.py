"""The priors by name."""

from prsrank.errors import InputError, nearest_name
from prsrank.relevance.linear_prior import LinearPrior
from prsrank.relevance.prior import PriorModel
from prsrank.relevance.tree_prior import TreePrior

PRIORS: dict[str, PriorModel] = {"trees": TreePrior(), "linear": LinearPrior()}
"""With default settings; `dataclasses.replace` changes a setting."""


def find_prior(prior: str | PriorModel) -> PriorModel:
    """Return the prior of a name, or itself.

    >>> find_prior("linear").l2[0]
    1000.0
    """
    if not isinstance(prior, str):
        return prior
    if prior not in PRIORS:
        raise InputError(f"there is no prior '{prior}'{nearest_name(prior, PRIORS)}")
    return PRIORS[prior]
