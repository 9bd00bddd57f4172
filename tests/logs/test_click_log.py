import dataclasses
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.array_checks import check_docs, check_fit
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.click_log_parts import canonical, merge
from prsrank.logs.distinct import code_pairs, code_rankings, doc_table, number_keys
from prsrank.logs.events import event_blocks


def random_log(seed, *, sessions=300, rankings=12, queries=5, strings=False):
    """A log with gaps in positions, sessions without clicks, and docs never shown."""
    rng = np.random.default_rng(seed)
    docs_per_query = 8
    lengths = rng.integers(1, 7, rankings)
    ranking_query = rng.integers(queries, size=rankings)
    docs = [
        q * docs_per_query + rng.permutation(docs_per_query)[:n]
        for q, n in zip(ranking_query, lengths, strict=True)
    ]
    positions = [np.sort(rng.choice(9, n, replace=False)) + 1 for n in lengths]
    session_ranking = rng.integers(rankings, size=sessions)
    clicks = [np.flatnonzero(rng.random(lengths[r]) < 0.3) for r in session_ranking]
    query_ids = rng.permutation(100)[:queries]
    doc_ids = np.concatenate([rng.permutation(50)[:docs_per_query] for _ in range(queries)])
    return ClickLog(
        query_ids=query_ids.astype(str) if strings else query_ids,
        doc_offsets=np.arange(queries + 1) * docs_per_query,
        doc_ids=doc_ids.astype(str) if strings else doc_ids,
        ranking_query=ranking_query,
        ranking_offsets=np.concatenate([[0], np.cumsum(lengths)]),
        ranking_docs=np.concatenate(docs),
        ranking_positions=np.concatenate(positions),
        session_ranking=session_ranking,
        session_clicks=np.array([len(c) for c in clicks]),
        clicks=np.concatenate(clicks),
        ranking_design=rng.integers(3, size=rankings),
        designs=("", "uniform", "swap:1:2"),
        ranking_propensities=rng.choice([0.25, 0.5, 1.0], lengths.sum()),
        session_ids=rng.permutation(10 * sessions)[:sessions],
        session_times=rng.integers(0, 10**9, sessions),
        contexts={"device": Context(("tv", "phone", "pc"), rng.integers(2, size=sessions))},
    )


def rows_of(log):
    return pd.concat([pd.DataFrame(b) for b in event_blocks(log)], ignore_index=True)


def test_slot_statistics_against_counting_sessions_one_by_one():
    log = random_log(0)
    shown, clicked = np.zeros((2, len(log.ranking_docs)), int)
    starts = log.click_offsets
    for session, ranking in enumerate(log.session_ranking):
        first, end = log.ranking_offsets[ranking : ranking + 2]
        shown[first:end] += 1
        clicked[first + log.clicks[starts[session] : starts[session + 1]]] += 1
    found = log.slot_statistics()
    np.testing.assert_array_equal(found[0], shown)
    np.testing.assert_array_equal(found[1], clicked)


def test_position_counts_against_the_rows():
    log = random_log(1)
    rows = rows_of(log).groupby("position")["click"].agg(["size", "sum"])
    rows = rows.reindex(range(1, log.max_position + 1), fill_value=0)
    shown, clicked = log.position_counts()
    assert shown.tolist() == rows["size"].tolist()
    assert clicked.tolist() == rows["sum"].tolist()


@pytest.mark.parametrize("as_mask", [False, True])
@pytest.mark.parametrize("strings", [False, True])
def test_select_keeps_the_rows_of_the_sessions(as_mask, strings):
    log = random_log(2, strings=strings)
    mask = np.random.default_rng(0).random(log.sessions) < 0.1
    chosen = mask if as_mask else np.flatnonzero(mask)[::-1]
    order = np.flatnonzero(mask) if as_mask else chosen
    part = log.select(chosen)
    rows = rows_of(log)
    session = np.repeat(np.arange(log.sessions), np.diff(log.ranking_offsets)[log.session_ranking])
    expected = pd.concat([rows[session == s] for s in order], ignore_index=True)
    pd.testing.assert_frame_equal(rows_of(part), expected)


def test_select_leaves_out_what_is_not_shown():
    log = random_log(3)
    part = log.select([5, 5, 8])
    assert part.sessions == 3
    assert part.rankings == len(np.unique(log.session_ranking[[5, 8]]))
    assert set(part.ranking_query.tolist()) == set(range(part.queries))
    assert set(part.ranking_docs.tolist()) == set(range(len(part.doc_ids)))
    assert len(part.contexts["device"].values) == len(np.unique(part.contexts["device"].codes))


def test_select_none_gives_an_empty_log():
    part = random_log(3).select([])
    assert (part.sessions, part.rankings, part.queries, part.max_position) == (0, 0, 0, 0)
    assert part.position_counts()[0].tolist() == []


@pytest.mark.parametrize("sessions", [[10**6], [0.5], [[1]], np.ones(3, bool)])
def test_select_refuses_what_is_not_a_session(sessions):
    with pytest.raises(InputError, match="session"):
        random_log(3).select(sessions)


def sorted_rows(log):
    order = ["session_id", "query_id", "position"]
    return rows_of(log).sort_values(order, ignore_index=True)


@pytest.mark.parametrize("strings", [False, True])
def test_canonical_says_the_same_in_a_fixed_order(strings):
    log = random_log(4, strings=strings)
    fixed = canonical(log)
    pd.testing.assert_frame_equal(rows_of(fixed), sorted_rows(log))
    mixed = canonical(log.select(np.random.default_rng(0).permutation(log.sessions)))
    pd.testing.assert_frame_equal(rows_of(mixed), rows_of(fixed))
    assert fixed.query_ids.tolist() == sorted(fixed.query_ids.tolist())
    for start, end in zip(fixed.doc_offsets[:-1], fixed.doc_offsets[1:], strict=True):
        docs = fixed.doc_ids[start:end].tolist()
        assert docs == sorted(set(docs))
    firsts = np.unique(fixed.session_ranking, return_index=True)[1]
    assert np.all(np.diff(firsts) > 0)
    assert fixed.contexts["device"].values == ("phone", "tv")


def test_equals_sees_every_difference():
    log = random_log(5)
    assert log.equals(log.select(np.arange(log.sessions)))
    for name in ("session_ids", "session_times"):
        changed = getattr(log, name).copy()
        changed[7] += 1
        assert not log.equals(dataclasses.replace(log, **{name: changed}))
    for name in ("session_ids", "session_times", "ranking_propensities"):
        assert not log.equals(dataclasses.replace(log, **{name: None}))
    shown = int(log.ranking_offsets[log.session_ranking[0]])
    propensities = log.ranking_propensities.copy()
    propensities[shown] += 0.1
    assert not log.equals(dataclasses.replace(log, ranking_propensities=propensities))
    assert not log.equals(dataclasses.replace(log, contexts={}))
    assert not log.equals(dataclasses.replace(log, designs=("", "uniform", "swap:1:3")))
    assert log.equals(log.select(np.arange(log.sessions)[::-1]))
    assert not log.equals(log.select(np.arange(log.sessions - 1)))


@pytest.mark.parametrize("share", [0.001, 0.3, 0.6, 0.999])
def test_split_by_query_cuts_no_query(share):
    log = random_log(6, queries=5, rankings=30)
    first, second = log.split_by_query(share, seed=3)
    assert not set(first.query_ids.tolist()) & set(second.query_ids.tolist())
    assert first.sessions + second.sessions == log.sessions
    assert first.queries == min(max(round(share * 5), 1), 4)
    again, _ = log.split_by_query(share, seed=3)
    assert again.equals(first)
    sides = {log.split_by_query(0.5, seed=s)[0].query_ids.tobytes() for s in range(9)}
    assert len(sides) > 1


def test_split_by_time():
    log = random_log(7)
    cut = int(np.median(log.session_times))
    for at in (cut, np.datetime64(cut, "us"), datetime(1970, 1, 1) + timedelta(microseconds=cut)):
        first, second = log.split_by_time(at=at)
        assert first.session_times.max() < cut <= second.session_times.min()
        assert first.sessions + second.sessions == log.sessions
    with pytest.raises(InputError, match="leaves one part without sessions"):
        log.split_by_time(at=datetime(1969, 1, 1))
    first, _ = log.split_by_time(share=0.8)
    assert first.sessions == round(0.8 * log.sessions)
    text = str(np.datetime64(cut, "us"))
    assert log.split_by_time(at=text)[0].sessions == np.sum(log.session_times < cut)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either a time or a share"),
        ({"at": 5, "share": 0.5}, "either a time or a share"),
        ({"share": 1.0}, "between 0 and 1"),
        ({"at": "soon"}, "'soon' is not a time"),
    ],
)
def test_split_by_time_refuses(arguments, message):
    with pytest.raises(InputError, match=message):
        random_log(7).split_by_time(**arguments)


def test_splits_refuse_logs_that_cannot_be_split():
    log = dataclasses.replace(random_log(7), session_times=None)
    with pytest.raises(InputError, match="no timestamps"):
        log.split_by_time(share=0.5)
    with pytest.raises(InputError, match="1 queries cannot be split"):
        log.select([0]).split_by_query(0.5)


@pytest.mark.parametrize("strings", [False, True])
def test_merge_is_the_inverse_of_a_split(strings):
    log = random_log(8, strings=strings)
    cut = log.sessions // 3
    merged = merge([log.select(np.arange(cut)), log.select(np.arange(cut, log.sessions))])
    assert merged.equals(log)
    pd.testing.assert_frame_equal(rows_of(merged), sorted_rows(log))


def test_merge_joins_equal_rankings_and_mixed_ids():
    ints, strings = random_log(9), random_log(9, strings=True)
    ints = dataclasses.replace(ints, session_ids=None)
    strings = dataclasses.replace(strings, session_ids=None, contexts={})
    merged = merge([ints, strings])
    assert merged.rankings == canonical(ints).rankings
    assert merged.query_ids.dtype.kind == "U"
    assert merged.sessions == 2 * ints.sessions
    assert merged.session_ids is None
    assert merged.contexts == {}
    np.testing.assert_array_equal(merged.position_counts()[1], 2 * ints.position_counts()[1])


def test_merge_keeps_ids_that_happen_to_be_a_numbering():
    def of_query(query, sessions):
        rows = [(query, s, d, d, d == 1) for s in sessions for d in (1, 2)]
        names = ("query_id", "session_id", "doc_id", "position", "click")
        return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))

    first, second = of_query(7, [0, 1]), of_query(8, [9, 12])
    whole = ClickLog.from_frame({n: np.concatenate([first[n], second[n]]) for n in first})
    merged = merge([ClickLog.from_frame(first), ClickLog.from_frame(second)])
    assert merged.session_ids.tolist() == [0, 1, 9, 12]
    assert merged.equals(whole)


def test_merge_refuses_the_same_session_twice():
    log = random_log(10)
    with pytest.raises(InputError, match=r"session \d+ of query \d+ is in more than one log"):
        merge([log, log])
    with pytest.raises(InputError, match="nothing to merge"):
        merge([])


def dataset(log, *, doc_ids=True, strings=False):
    """Every query and doc of a log, lists and docs in another order, and some more."""
    rng = np.random.default_rng(0)
    lists = rng.permutation(log.queries)
    ids, names = [], []
    for query in lists:
        docs = log.doc_ids[log.doc_offsets[query] : log.doc_offsets[query + 1]]
        extra = np.array(["-1"] if log.doc_ids.dtype.kind == "U" else [-1])
        ids.append(rng.permutation(np.concatenate([docs, extra])))
        names.append(log.query_ids[query])
    flat = np.concatenate(ids)
    return RankingDataset(
        features=np.zeros((len(flat), 1)),
        offsets=np.concatenate([[0], np.cumsum([len(i) for i in ids])]),
        query_ids=np.array(names).astype(str) if strings else np.array(names),
        doc_ids=(flat.astype(str) if strings else flat) if doc_ids else None,
    )


@pytest.mark.parametrize("log_strings", [False, True])
@pytest.mark.parametrize("data_strings", [False, True])
def test_doc_rows_finds_each_doc(log_strings, data_strings):
    log = random_log(11, strings=log_strings)
    data = dataset(log, strings=data_strings)
    rows = log.doc_rows(data)
    assert data.doc_ids[rows].astype(str).tolist() == log.doc_ids.astype(str).tolist()
    lists = np.searchsorted(data.offsets, rows, side="right") - 1
    found = np.repeat(log.query_ids, np.diff(log.doc_offsets)).astype(str)
    assert data.query_ids[lists].astype(str).tolist() == found.tolist()


@pytest.mark.parametrize("swapped", [False, True])
def test_doc_rows_of_lists_in_the_order_of_the_log(swapped):
    log = random_log(11)
    ids = log.doc_ids.copy()
    if swapped:
        ids[[0, 1]] = ids[[1, 0]]
    data = RankingDataset(np.zeros((len(ids), 1)), log.doc_offsets, log.query_ids, doc_ids=ids)
    expected = np.arange(len(ids))
    if swapped:
        expected[[0, 1]] = [1, 0]
    assert log.doc_rows(data).tolist() == expected.tolist()


@pytest.mark.parametrize("strings", [False, True])
def test_doc_rows_without_doc_ids(strings):
    numbers = np.array([2, 0, 1, 1])
    log = dataclasses.replace(
        random_log(12, queries=2).select([]),
        query_ids=np.array([4, 9]),
        doc_offsets=np.array([0, 2, 4]),
        doc_ids=numbers.astype(str) if strings else numbers,
    )
    data = RankingDataset(np.zeros((5, 1)), np.array([0, 2, 5]), query_ids=np.array([9, 4]))
    log = dataclasses.replace(log, doc_ids=log.doc_ids[[0, 1, 2, 2]])
    assert log.doc_rows(data).tolist() == [2 + 2, 2 + 0, 1, 1]


def test_doc_rows_names_what_is_missing():
    log = random_log(13)
    data = dataset(log)
    with pytest.raises(InputError, match=rf"query {log.query_ids[2]} is in the log but not"):
        log.doc_rows(data.select(data.query_ids != log.query_ids[2]))
    doc = int(log.doc_offsets[1]) + 3
    ids = data.doc_ids.copy()
    ids[log.doc_rows(data)[doc]] = -2
    lacking = dataclasses.replace(data, doc_ids=ids)
    expected = rf"doc {log.doc_ids[doc]} of query {log.query_ids[1]} is in the log but not"
    with pytest.raises(InputError, match=expected):
        log.doc_rows(lacking)
    with pytest.raises(InputError, match="in the log but not in the data set"):
        log.doc_rows(dataset(log, doc_ids=False))
    words = dataclasses.replace(log, doc_ids=np.char.add("d", log.doc_ids.astype(str)))
    with pytest.raises(InputError, match="names docs by strings"):
        words.doc_rows(dataset(log, doc_ids=False))


@pytest.mark.parametrize("name", ["doc_ids", "clicks", "session_times", "ranking_propensities"])
def test_sizes_are_checked(name):
    log = random_log(14)
    with pytest.raises(InputError, match=f"the log's {name} has"):
        dataclasses.replace(log, **{name: getattr(log, name)[:-1]})


def changed(log, name, index, value):
    array = getattr(log, name).copy()
    array[index] = value
    return dataclasses.replace(log, **{name: array})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("clicks", 99, r"session \d+ clicks a doc not shown: index 99 of a ranking of \d"),
        ("clicks", -1, "clicks a doc not shown: index -1"),
        ("session_ranking", 77, "session 0 names ranking 77, but there are 12"),
        ("session_ranking", -1, "session 0 names ranking -1"),
        ("ranking_positions", 0, r"position 0 \(doc \d+ of query \d+\), but positions start at 1"),
    ],
)
def test_parts_that_do_not_fit(name, value, message):
    log = random_log(15)
    check_fit(log)
    with pytest.raises(InputError, match=message):
        check_fit(changed(log, name, 0, value))


def test_rankings_that_do_not_rise_or_repeat_a_doc():
    log = random_log(15)
    ranking = int(np.argmax(np.diff(log.ranking_offsets)))
    slot = int(log.ranking_offsets[ranking])
    same = log.ranking_positions[slot + 1]
    with pytest.raises(InputError, match=f"positions of ranking {ranking} do not rise"):
        check_fit(changed(log, "ranking_positions", slot, same))
    with pytest.raises(InputError, match=r"doc .* twice in session"):
        check_docs(changed(log, "ranking_docs", slot, log.ranking_docs[slot + 1]))
    session = int(np.argmax(log.session_clicks))
    click = int(log.click_offsets[session])
    with pytest.raises(InputError, match=f"clicks of session {session} do not rise"):
        check_fit(changed(log, "clicks", click, log.clicks[click + 1]))


@pytest.mark.parametrize("distinct", [1, 30, 5000])
def test_codes_against_a_dictionary(distinct):
    rng = np.random.default_rng(distinct)
    one, two = rng.integers(-distinct, distinct, (2, 20_000)) * 2**40
    for other in (two, np.zeros_like(one)):
        seen = {}
        expected = [seen.setdefault(pair, len(seen)) for pair in zip(one, other, strict=True)]
        for codes, firsts in [code_pairs(one, other), *([number_keys(one)] * (other is not two))]:
            assert codes.tolist() == expected
            np.testing.assert_array_equal(firsts, np.unique(expected, return_index=True)[1])


@pytest.mark.parametrize("with_propensities", [False, True])
def test_ranking_codes_against_a_dictionary(with_propensities):
    rng = np.random.default_rng(6)
    lengths = rng.integers(0, 4, 9000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    query, design = rng.integers(20, size=(2, 9000)) // np.array([[1], [10]])
    docs = rng.integers(3, size=offsets[-1]) * 2**33
    positions = rng.integers(1, 3, offsets[-1])
    propensities = rng.choice([0.5, 1.0], offsets[-1]) if with_propensities else None
    seen = {}
    expected = []
    for i in range(9000):
        part = slice(offsets[i], offsets[i + 1])
        key = (query[i], design[i], docs[part].tobytes(), positions[part].tobytes())
        key += (propensities[part].tobytes(),) if with_propensities else ()
        expected.append(seen.setdefault(key, len(seen)))
    codes, firsts = code_rankings(offsets, query, design, docs, positions, propensities)
    assert len(seen) > 3000
    assert codes.tolist() == expected
    assert codes[firsts].tolist() == list(range(len(seen)))


def test_doc_table_against_sorted_pairs():
    rng = np.random.default_rng(9)
    query, doc = rng.integers(6, size=500), rng.integers(-40, 40, 500)
    pairs = sorted(set(zip(query.tolist(), doc.tolist(), strict=True)))
    offsets, docs, index = doc_table(query, doc, 7)
    assert docs.tolist() == [d for _, d in pairs]
    assert offsets.tolist() == [sum(q < k for q, _ in pairs) for k in range(8)]
    assert [pairs[i] for i in index] == list(zip(query, doc, strict=True))
