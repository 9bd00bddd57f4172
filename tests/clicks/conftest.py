"""What several tests of clicks compare with."""

import pytest


@pytest.fixture
def cascade_pattern_probability():
    return _cascade_pattern_probability


def _cascade_pattern_probability(model, relevance, pattern):
    """Sum over every slot at which the user may stop."""
    alive, total = 1.0, 0.0
    for slot, (relevant, clicked) in enumerate(zip(relevance, pattern, strict=True)):
        attraction = 1 - model.mu if relevant else model.mu
        alive *= attraction if clicked else 1 - attraction
        goes_on = model.gamma * (1 - model.satisfaction[relevant] if clicked else 1)
        if not any(pattern[slot + 1 :]):
            last = slot == len(pattern) - 1
            total += alive * (1 if last else 1 - goes_on)
        alive *= goes_on
    return total
