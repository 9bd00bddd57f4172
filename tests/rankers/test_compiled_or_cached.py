"""A kernel gives the same bits in the process that compiles it and in those that find it cached."""

import os
import subprocess
import sys

import pytest

FITS = """
import numpy as np
from hashlib import sha256
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.propensity.curve import PowerLaw
from prsrank.rankers.base import ranker_class

data = synthetic_dataset("mq2007", 40, seed=2)
scores = np.random.default_rng(0).normal(size=data.docs)
log = simulate_clicks(data, scores, PositionBasedModel(), clicks=800, seed=1)
few = {"trees": 5}
for name, settings, weighting in [
    ("linear", {}, "prs"),
    ("linear", {}, "posterior"),
    ("svm", {}, "ips"),
    ("lambdamart", few, "prs"),
    ("lambdamart", few, "posterior"),
    ("lambdamart", few | {"metric": "arp"}, "naive"),
    ("lambdamart", few | {"metric": "map"}, "prs"),
    ("lambdamart", few | {"metric": "mrr"}, "prs"),
    ("unbiased_lambdamart", few, None),
]:
    ranker = ranker_class(name)(**settings)
    curve = PowerLaw(1.0) if ranker.takes_propensities else None
    taken = ranker.pairs(log, data, curve, weighting) if weighting else log
    learned = ranker.fit(data, taken).score(data.features)
    print(name, weighting, settings, sha256(learned.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_every_ranker_learns_the_same_with_a_cold_and_a_warm_cache(tmp_path):
    learned = [
        subprocess.run(
            [sys.executable, "-c", FITS],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert len(learned[0]) == 9
    assert learned[0] == learned[1]
