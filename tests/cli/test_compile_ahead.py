"""Kernels compiled ahead by a second process."""

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from numba.core.caching import IndexDataCacheFile

from prsrank.cli import compile_ahead as ahead
from prsrank.metrics.tie_groups import sort_kernel
from prsrank.pairs.fold_kernels import fold_kernel


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Return the commands that are started, where nothing is compiled and two cores are free."""
    commands = []
    monkeypatch.setattr(ahead.subprocess, "Popen", lambda command, **_: commands.append(command))
    monkeypatch.setattr(ahead, "thread_count", lambda: 2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    stats = SimpleNamespace(cache_path=str(tmp_path))
    monkeypatch.setattr(ahead, "sort_kernel", SimpleNamespace(stats=stats))
    return commands


def test_a_process_is_started_where_nothing_is_compiled(started):
    ahead.compile_ahead()
    assert [command[1:] for command in started] == [["-m", "prsrank.cli.compile_ahead"]]


def test_none_is_started_where_kernels_are_there(started, monkeypatch):
    ahead.use_later_kernels()
    monkeypatch.setattr(ahead, "sort_kernel", sort_kernel)
    ahead.compile_ahead()
    assert not started
    assert fold_kernel.signatures


@pytest.mark.parametrize("threads", [1, 2])
def test_none_is_started_without_a_core_for_it(started, monkeypatch, threads):
    monkeypatch.setattr(ahead, "thread_count", lambda: threads)
    monkeypatch.setenv("OMP_NUM_THREADS", "1" if threads == 2 else "2")
    ahead.compile_ahead()
    assert not started


def test_two_variants_of_a_kernel_saved_at_once_get_files_of_their_own(tmp_path, monkeypatch):
    caches = [IndexDataCacheFile(str(tmp_path), "kernel", "stamp") for _ in range(2)]
    load = IndexDataCacheFile._load_index

    def slowly(cache):
        found = load(cache)
        time.sleep(0.05)  # so that both would have read the index before either writes it
        return found

    monkeypatch.setattr(IndexDataCacheFile, "_load_index", slowly)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ahead._save_in_turn, caches, ("int32", "int64"), ("of int32", "of int64")))
    assert [caches[0].load(key) for key in ("int32", "int64")] == ["of int32", "of int64"]
