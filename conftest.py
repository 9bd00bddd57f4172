"""Doctests of the neural rankers are left out where there is no PyTorch; Triton's kernels have none."""

from importlib.util import find_spec

collect_ignore = ["src/prsrank/rankers/neural/triton_kernels.py"]
collect_ignore_glob = [] if find_spec("torch") else ["src/prsrank/rankers/neural/*"]
