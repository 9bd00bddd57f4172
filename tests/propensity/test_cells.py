from collections import Counter

import numpy as np

from prsrank.propensity.cells import count_cells


def by_hand(log, depth):
    shown, clicked = Counter(), Counter()
    offsets = log.click_offsets
    for session, ranking in enumerate(log.session_ranking):
        slots = range(log.ranking_offsets[ranking], log.ranking_offsets[ranking + 1])
        clicks = set(log.clicks[offsets[session] : offsets[session + 1]].tolist())
        for i, slot in enumerate(slots):
            key = int(log.ranking_docs[slot]), int(log.ranking_positions[slot])
            if key[1] <= depth:
                shown[key] += 1
                clicked[key] += i in clicks
    return shown, clicked


def test_cells_are_the_counts_of_single_events(simulated_log):
    log = simulated_log([1, 0.7, 0.5, 0.3, 0.2], queries=7, sessions=500, rankers=3)
    for depth in (5, 3):
        cells = count_cells(log, depth=depth)
        shown, clicked = by_hand(log, depth)
        keys = list(zip(cells.cell_docs.tolist(), cells.positions.tolist(), strict=True))
        assert keys == sorted(shown)
        assert cells.shown.tolist() == [shown[key] for key in keys]
        assert cells.clicked.tolist() == [clicked[key] for key in keys]
        assert cells.clicks_at.tolist() == [
            sum(n for (_, k), n in clicked.items() if k == at) for at in range(1, depth + 1)
        ]


def test_keep_docs(tiny_log):
    log = tiny_log(
        [(0, [0, 1, 2], [1, 2, 4]), (0, [1, 0, 2], [1, 2, 4])], [(0, [1]), (1, [1, 4]), (1, [])]
    )
    kept = count_cells(log).of_docs(np.array([True, False, True]))
    assert kept.offsets.tolist() == [0, 2, 3]
    assert kept.positions.tolist() == [1, 2, 4]
    assert kept.shown.tolist() == [1, 2, 3]
    assert kept.clicked.tolist() == [1, 0, 1]
