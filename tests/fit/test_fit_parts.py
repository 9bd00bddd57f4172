"""Splitting, propensities, trials and manifests of a fit, each alone."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.fit.log import PiecedLog
from prsrank.fit.manifest import (
    FORMAT,
    MANIFEST,
    check_inputs,
    hashed_files,
    hashed_inputs,
    read_manifest,
    version_differences,
)
from prsrank.fit.plan import Plan
from prsrank.fit.tuning import candidates
from prsrank.logs.click_log import ClickLog
from prsrank.logs.features import original_queries
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import read_log
from prsrank.logs.split import BUCKETS, Split, bucket_limit
from prsrank.propensity.curve import Propensities, covering
from prsrank.propensity.curve_of import monotone_curve

DATA = "synthetic:mq2007:40"


@pytest.fixture(scope="module")
def log():
    data = synthetic_dataset("mq2007", 40)
    scores = np.random.default_rng(0).normal(size=data.docs)
    model = PositionBasedModel(eta=1, mu=0.1)
    return simulate_clicks(data, scores, model, sessions=600, randomised=0.05, seed=1)


def on_engine(logs, *, grouped=False):
    """Return logs that share no query as pieces of one, on lists without features."""
    logs = [logs] if isinstance(logs, ClickLog) else logs
    ids = np.concatenate([one.query_ids for one in logs])
    lists = RankingDataset(np.zeros((len(ids), 1)), np.arange(len(ids) + 1), ids)
    return PiecedLog.of(logs, lists, grouped=grouped)


def split_log(log, plan):
    return on_engine(log, grouped=plan.mapping.lists == "session").split(plan.split)


def sessions(part):
    return part.sessions.in_memory()[0]


def queries(part):
    part = sessions(part)
    return set(part.query_ids[part.ranking_query[part.session_ranking]].tolist())


@pytest.mark.parametrize("holdout", ["query:0.3", "randomised"])
def test_no_query_is_in_two_parts(log, holdout):
    parts = split_log(log, Plan("log", data=DATA, holdout=holdout))
    sides = [queries(part) for part in (parts.train, parts.validation, parts.held_out)]
    assert all(sides)
    assert len(set.union(*sides)) == sum(map(len, sides))
    assert queries(parts.learning) == sides[0] | sides[1]
    total = sum(extent.sessions for extent in parts.extents.values())
    assert total + parts.dropped_sessions == log.sessions


@pytest.mark.parametrize("holdout", ["query:0.3", "time:0.3", "randomised"])
def test_parts_do_not_depend_on_how_a_log_is_cut_or_ordered(log, holdout):
    """By the definition, query by query: other orders and pieces give the same parts."""
    rng = np.random.default_rng(2)
    log = replace(
        log,
        session_times=1000 * log.ranking_query[log.session_ranking] + rng.integers(3000, size=600),
        session_ids=np.arange(log.sessions),
    )
    third = np.arange(log.queries) % 3
    cut = [log.select(third[log.ranking_query][log.session_ranking] == n) for n in range(3)]
    how = Plan("log", data=DATA, holdout=holdout, seed=3).split
    whole = on_engine(log.select(rng.permutation(log.sessions))).split(how)
    pieces = on_engine(cut).split(how)
    assert whole.extents == pieces.extents
    assert whole.dropped_sessions == pieces.dropped_sessions
    for name in ("train", "validation", "held_out", "learning"):
        one, other = (sessions(getattr(parts, name)) for parts in (whole, pieces))
        assert sorted(one.session_ids.tolist()) == sorted(other.session_ids.tolist())


def test_a_share_of_few_queries_is_exact(log):
    for share in (0.1, 0.25, 0.5, 0.9):
        parts = on_engine(log).split(Split("query", share))
        assert parts.extents["held out"].queries == round(share * log.queries)
        others = log.queries - round(share * log.queries)
        assert parts.extents["validation"].queries == max(round(0.2 * others), 1)


def test_other_seeds_give_other_parts(log):
    held_out = [
        queries(on_engine(log).split(Split("query", 0.3, seed)).held_out) for seed in (0, 1)
    ]
    assert held_out[0] != held_out[1]


def test_a_limit_leaves_queries_on_both_sides():
    histogram = np.zeros(BUCKETS, np.int64)
    histogram[[5, 9]] = [1, 3]
    assert bucket_limit(histogram, 0.9) == 9
    assert bucket_limit(histogram, 0.01) == 6
    with pytest.raises(InputError, match="a log of 1 queries cannot be split"):
        bucket_limit(np.array([0, 1]), 0.5)


@pytest.fixture(scope="module")
def split_lists_log(tmp_path_factory):
    """40 queries with three lists each, half of which end in # and a number; read by session."""
    rows = []
    rng = np.random.default_rng(0)
    for session in range(600):
        query = session % 40
        name = f"q{query}" if query % 2 else f"q{query % 3}#{query}"
        value = session // 40 % 3 if query else 0
        clicked = rng.integers(1, 3)
        design = "uniform" if query > 25 and session % 4 < 2 else ""
        for k in (1, 2):
            click = int(k == clicked)
            rows.append(f"{name},{session},d{k},{k},{click},{session * 10**6},{design},{value}")
    file = tmp_path_factory.mktemp("split") / "log.csv"
    header = "query_id,session_id,doc_id,position,click,timestamp,randomised,x\n"
    file.write_text(header + "\n".join(rows))
    mapping = LogMapping(features=("x",), lists="session")
    log, _ = read_log(file, mapping=mapping)
    return file, mapping, log, {int(row.split(",")[5]): row.split(",")[0] for row in rows}


@pytest.mark.parametrize("holdout", ["query:0.3", "time:0.04", "randomised"])
def test_lists_of_one_query_are_in_one_part(split_lists_log, holdout):
    file, mapping, log, queries_of = split_lists_log
    parts = split_log(log, Plan(str(file), mapping=mapping, holdout=holdout))
    sides = [
        {queries_of[time] for time in sessions(part).session_times.tolist()}
        for part in (parts.train, parts.validation, parts.held_out)
    ]
    assert all(sides)
    assert len(set.union(*sides)) == sum(map(len, sides))
    total = sum(extent.sessions for extent in parts.extents.values())
    assert total + parts.dropped_sessions == log.sessions


def test_a_query_with_many_lists_counts_once(split_lists_log):
    """Held out is a share of the queries, not of their lists, of which one query has but one."""
    file, mapping, log, queries_of = split_lists_log
    plan = Plan(str(file), mapping=mapping, holdout="query:0.3")
    held_out = sessions(split_log(log, plan).held_out)
    queries = {queries_of[time] for time in held_out.session_times.tolist()}
    assert len(queries) == round(0.3 * len(set(queries_of.values())))


def test_without_split_lists_a_number_in_an_id_means_nothing(split_lists_log):
    _, _, log, queries_of = split_lists_log
    parts = split_log(log, Plan("log", data=DATA))
    sides = [
        {queries_of[time] for time in sessions(part).session_times.tolist()}
        for part in (parts.train, parts.held_out)
    ]
    assert sides[0] & sides[1]  # what the groups are there for


def test_the_original_query_of_a_split_list_comes_back(split_lists_log):
    _, _, log, queries_of = split_lists_log
    ids = original_queries(log.query_ids)[log.ranking_query][log.session_ranking]
    assert ids.tolist() == [queries_of[time] for time in log.session_times.tolist()]
    assert log.queries == 1 + 39 * 3
    numbers = np.arange(3)
    assert original_queries(numbers) is numbers


def test_the_randomised_part_holds_all_randomised_sessions_and_no_other(log):
    parts = split_log(log, Plan("log", data=DATA, holdout="randomised"))
    held_out = sessions(parts.held_out)
    assert set(np.array(held_out.designs)[held_out.ranking_design]) == {"uniform"}
    assert not sessions(parts.learning).ranking_design.any()
    marked = np.array(log.designs)[log.ranking_design][log.session_ranking] == "uniform"
    assert held_out.sessions == marked.sum()


def test_a_log_without_randomised_sessions_cannot_hold_them_out(log):
    ordinary = log.select(log.ranking_design[log.session_ranking] == 0)
    with pytest.raises(InputError, match="no session is marked as randomised"):
        split_log(ordinary, Plan("log", data=DATA, holdout="randomised"))


def test_a_part_without_clicks_is_named():
    rows = np.arange(6)
    log = ClickLog.from_frame(
        {"query_id": rows // 2, "session_id": rows // 2, "doc_id": rows, "position": rows % 2 + 1}
        | {"click": rows == 0}
    )
    with pytest.raises(InputError, match="part has no clicks"):
        split_log(log, Plan("log", data=DATA, holdout="query:0.3"))


def curve_of(p, clicks):
    return Propensities(p, p, p, clicks, "weak: some", "randomised")


def test_steps_of_a_curve_that_few_clicks_bear_are_those_of_the_position_above():
    # positions 3 and 4 make one step of 9 + 3 clicks; 5 and 6 one of 6 + 3
    curve = curve_of([1, 0.5, 0.3, 0.3, 0.01, 0.01], [50, 20, 9, 3, 6, 3])
    known = covering(curve, 8)
    assert known.propensity.tolist() == [1, 0.5, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
    assert known.clicks.tolist() == [50, 20, 9, 3, 0, 0, 0, 0]
    assert np.isnan(known.low[4:]).all()
    assert known.low[:4].tolist() == [1, 0.5, 0.3, 0.3]
    assert known.verdict.endswith("positions 5-8: taken as the position above")


def test_what_is_taken_as_the_position_above_moves_with_it():
    matrix = [[0, 0, 0], [0, 0.04, 0.01], [0, 0.01, 0.09]]
    curve = replace(curve_of([1, 0.5, 0.01], [50, 20, 3]), covariance=matrix)
    expected = [[0, 0, 0, 0]] + [[0, 0.04, 0.04, 0.04]] * 3
    np.testing.assert_array_equal(covering(curve, 4).covariance, expected)


def test_a_curve_that_many_clicks_bear_stays_as_it_is():
    curve = curve_of([1, 0.5, 0.25], [400, 200, 100])
    assert covering(curve, 3) is curve


def test_positions_that_few_lists_reach_do_not_pull_the_curve_down():
    """60, 30 and 20 clicks at positions 1, 2, 3 of 200 short lists; 3 lists go down to 40."""
    clicked = [1] * 60 + [2] * 30 + [3] * 20 + [0] * 90 + [1] * 3
    lengths = [3] * 200 + [40] * 3
    session = np.repeat(np.arange(203), lengths)
    position = np.concatenate([np.arange(1, length + 1) for length in lengths])
    log = ClickLog.from_frame(
        {"query_id": session, "session_id": session, "doc_id": position, "position": position}
        | {
            "click": position == np.array(clicked)[session],
            "randomised": np.ones(len(session), bool),
        }
    )
    curve = covering(monotone_curve("randomised", on_engine(log).pieces), 40)
    expected = [1, 30 / 63] + [20 / 63] * 38
    np.testing.assert_allclose(curve.propensity, expected, rtol=1e-9)


@pytest.mark.parametrize("ranker", ["lambdamart", "linear"])
@pytest.mark.parametrize("trials", [1, 5, 12])
def test_every_weighting_has_as_many_trials_and_none_twice(ranker, trials):
    for weighting in ("prs", "ips", "naive"):
        tried = candidates(ranker, weighting, trials)
        assert len(tried) == trials
        assert len({str(one) for one in tried}) == trials
        assert all(("tau" in one.parameters) == (weighting == "ips") for one in tried)


def test_hashes_are_those_of_the_files(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "a.csv").write_bytes(b"one")
    (tmp_path / "log" / "b.csv").write_bytes(b"three")
    expected = [
        {"file": name, "bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
        for name, text in (("a.csv", b"one"), ("b.csv", b"three"))
    ]
    assert hashed_files(tmp_path / "log") == expected
    assert hashed_files(tmp_path / "log" / "*.csv") == expected
    assert hashed_files(tmp_path / "log" / "b.csv") == expected[1:]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: (f / "a.csv").write_text("other"), "has changed"),
        (lambda f: (f / "c.csv").write_text("new"), "a file was added"),
        (lambda f: (f / "b.csv").unlink(), "a file is gone"),
    ],
)
def test_a_changed_input_is_refused_in_one_line(tmp_path, change, said):
    (tmp_path / "a.csv").write_text("one")
    (tmp_path / "b.csv").write_text("two")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "d.csv").write_text("three")
    plan = Plan(str(tmp_path), data=DATA)
    before = hashed_inputs(plan)
    check_inputs(before, hashed_inputs(plan), plan)
    change(tmp_path)
    with pytest.raises(InputError, match=said):
        check_inputs(before, hashed_inputs(plan), plan)


def test_a_plan_comes_back_from_its_json(tmp_path):
    mapping = LogMapping(
        columns={"query_id": "q"}, features=("x*",), contexts=("device",), positions_from=0
    )
    plan = Plan(str(tmp_path / "log.csv"), mapping=mapping, holdout="time:0.1", seed=7, trials=3)
    assert Plan.from_json_dict(plan.to_json_dict(), "m") == plan


def test_lists_of_an_older_manifest_are_those_of_its_mapping(tmp_path):
    """Settings had `lists` beside the mapping, which had none."""
    plan = Plan("log.csv", mapping=LogMapping(features=("x",), lists="session"))
    settings = plan.to_json_dict()
    settings["lists"] = settings["mapping"].pop("lists")
    manifest = {"format": FORMAT, "settings": settings, "inputs": {}, "versions": {}, "outputs": {}}
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    assert Plan.from_json_dict(read_manifest(tmp_path)["settings"], "m").mapping.lists == "session"


@pytest.mark.parametrize("holdout", ["query:0.3", "time:0.2", "randomised"])
def test_the_seed_of_a_plan_is_that_of_its_split(holdout):
    assert Plan("log.parquet", data=DATA, holdout=holdout, seed=7).split.seed == 7


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "no features"),
        ({"data": DATA, "features": "t.csv"}, "not both"),
        ({"data": DATA, "ranker": "dla"}, "weighted pairs, which dla is not"),
        ({"data": DATA, "holdout": "query:2"}, "does not say what to hold out"),
        ({"data": DATA, "trials": 0}, "trials must be from 1 to 10000, not 0"),
        ({"data": DATA, "trees": 10**9}, r"trees must be from 1 to 1e\+06"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(settings, said):
    with pytest.raises(InputError, match=said):
        Plan("log.csv", **settings)


def test_versions_that_differ_are_named():
    from prsrank.fit.manifest import versions

    assert version_differences(versions()) == []
    assert version_differences({**versions(), "numpy": "0.1"})[0].startswith("numpy 0.1 then, ")
