"""Kernels compiled ahead by a second process."""

from types import SimpleNamespace

import pytest

from prsrank.cli import compile_ahead as ahead
from prsrank.metrics.tie_groups import ndcg_kernel
from prsrank.pairs.fold_kernels import fold_kernel


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Return the commands that are started, where nothing is compiled and two cores are free."""
    commands = []
    monkeypatch.setattr(ahead.subprocess, "Popen", lambda command, **_: commands.append(command))
    monkeypatch.setattr(ahead, "thread_count", lambda: 2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    stats = SimpleNamespace(cache_path=str(tmp_path))
    monkeypatch.setattr(ahead, "ndcg_kernel", SimpleNamespace(stats=stats))
    return commands


def test_a_process_is_started_where_nothing_is_compiled(started):
    ahead.compile_ahead()
    assert [command[1:] for command in started] == [["-m", "prsrank.cli.compile_ahead"]]


def test_none_is_started_where_kernels_are_there(started, monkeypatch):
    ahead.use_later_kernels()
    monkeypatch.setattr(ahead, "ndcg_kernel", ndcg_kernel)
    ahead.compile_ahead()
    assert not started
    assert fold_kernel.signatures


@pytest.mark.parametrize("threads", [1, 2])
def test_none_is_started_without_a_core_for_it(started, monkeypatch, threads):
    monkeypatch.setattr(ahead, "thread_count", lambda: threads)
    monkeypatch.setenv("OMP_NUM_THREADS", "1" if threads == 2 else "2")
    ahead.compile_ahead()
    assert not started
