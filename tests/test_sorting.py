import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import prsrank
from prsrank.sorting import sort_with_index

SORTING = {"sort", "argsort", "unique", "median", "percentile", "quantile", "partition"}


def check(values):
    before = values.copy()
    ordered, index = sort_with_index(values)
    expected = np.argsort(values, kind="stable")
    np.testing.assert_array_equal(index, expected)
    np.testing.assert_array_equal(ordered, values[expected])
    np.testing.assert_array_equal(values, before)


@given(arrays.arrays(np.int64, st.integers(0, 100), elements=st.integers(-5, 5)))
def test_it_sorts_stably(values):
    check(values)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 31, 32, 33, 1000, 4097])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.uint64])
def test_lengths_and_types(length, dtype):
    rng = np.random.default_rng(length)
    check(rng.integers(0, max(length // 3, 1), length).astype(dtype))
    check(np.arange(length).astype(dtype)[::-1])


def test_the_ends_of_the_numbers_are_in_order():
    check(np.array([0.0, -np.inf, np.inf, -0.0, 1e-320, -1.0] * 7))
    check(np.array([2**64 - 1, 0, 2**63, 1] * 7, np.uint64))


def test_no_kernel_calls_a_sort_of_numpy():
    found = [
        f"{path.name}: {kernel.name} calls {ast.unparse(call.func)}"
        for path in Path(prsrank.__file__).parent.rglob("*.py")
        for kernel in ast.walk(ast.parse(path.read_text()))
        if isinstance(kernel, ast.FunctionDef)
        and any("jit" in ast.unparse(decorator) for decorator in kernel.decorator_list)
        for call in ast.walk(kernel)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in SORTING
    ]
    assert not found


SETTING = """
import sys
import numpy as np
n = 1200
scores = np.random.default_rng(0).normal(size=n).round(1)
"""
METRIC = """
from prsrank.metrics.ranking import arp
mean = arp((np.arange(n) % 3 == 0) * 1.0, scores, np.array([0, n]), form="mean_rank")
sys.stdout.write(repr(mean[0].item()) + "\\n")
"""
# numba numbers what it compiles: after two functions more its inner sort had one number in both
AHEAD = """
from numba import njit
njit(lambda: 1)()
njit(lambda: 2)()
"""
RANKS = """
from prsrank.losses.ranked_objective import rank_list, rank_room
room = rank_room(n)
rank_list(scores, np.arange(n, dtype=np.int32), room)
sys.stdout.write(" ".join(map(repr, room.ranks.tolist())) + "\\n")
"""


def test_kernels_compiled_in_different_processes_run_together(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def output(*code):
        run = subprocess.run(
            [sys.executable, "-c", SETTING + "".join(code)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        return [[float(word) for word in line.split()] for line in run.stdout.splitlines()]

    (mean,), (ranks,) = output(METRIC), output(AHEAD, RANKS)
    assert output(METRIC, RANKS) == [mean, ranks]
    assert output(RANKS, METRIC) == [ranks, mean]
    scores = np.random.default_rng(0).normal(size=1200).round(1)
    above, tied = scores[None] > scores[:, None], scores[None] == scores[:, None]
    expected = above.sum(axis=1) + (tied.sum(axis=1) + 1) / 2
    assert mean == pytest.approx([expected[::3].mean()])
    assert np.argsort(ranks).tolist() == np.argsort(-scores, kind="stable").tolist()
