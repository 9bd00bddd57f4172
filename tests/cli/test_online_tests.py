"""Planning an online test, and reading what an interleaving test shows."""

import json
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

from prsrank.logs.click_log_files import write_events

sys.path.insert(0, str(Path(__file__).parents[1] / "evaluation"))
from simulated_users import interleaved, logged, make_world

WORLD = make_world(queries=40, docs=5)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """One ranker, no randomised sessions: it identifies no curve."""
    file = tmp_path_factory.mktemp("plans") / "log.parquet"
    write_events(logged(WORLD, 4000), file)
    return file


def write_rows(file, columns):
    with duckdb.connect() as connection:
        connection.register("rows", {n: np.asarray(v) for n, v in columns.items()})
        connection.sql("SELECT * FROM rows").write_parquet(str(file))
    return file


def rows_of(sessions, names=("a", "b")):
    count, docs = sessions.doc.shape
    return {
        "query_id": np.repeat(sessions.query, docs),
        "session_id": np.repeat(np.arange(count), docs),
        "doc_id": sessions.doc.ravel(),
        "position": np.tile(np.arange(1, docs + 1), count),
        "click": sessions.click.ravel(),
        "team": np.array(names, object)[sessions.new.ravel().astype(int)],
    }


@pytest.fixture(scope="module")
def sessions():
    return interleaved(WORLD, WORLD.better_order(0.08), 4000, seed=1)


@pytest.fixture(scope="module")
def tested(sessions, tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("tests") / "test.parquet", rows_of(sessions))


@pytest.mark.parametrize(
    "command", [["plan", "experiment", "--position", 3], ["plan", "test", "--gain", 0.05]]
)
def test_plans_ask_for_a_curve_that_the_log_does_not_give(prsrank, log, command):
    code, _, err = prsrank(*command[:2], log, *command[2:])
    assert code == 2
    assert "identifies no propensities: give --propensity FILE or power:ETA" in err
    assert "harvest: every doc was only ever shown at one position" in err
    code, out, _ = prsrank(*command[:2], log, *command[2:], "--propensity", "power:1")
    assert code == 0
    assert out.splitlines()[-1] == "curve: given: power:1"


def test_plans_take_the_curve_that_a_log_identifies(prsrank, tmp_path):
    # interleaved lists show docs at several positions, with propensities (1/k)^0.3
    world = make_world(queries=40, docs=5, eta=0.3)
    drawn = interleaved(world, world.better_order(0.02), 40_000, seed=2)
    columns = {n: v for n, v in rows_of(drawn).items() if n != "team"}
    file = write_rows(tmp_path / "log.parquet", columns)
    code, out, _ = prsrank("plan", "experiment", file, "--position", 3, "--json")
    assert code == 0
    plan = json.loads(out)
    assert plan["curve"].startswith("harvest, from 40,000 sessions: identified")
    by_hand = prsrank(
        "plan", "experiment", file, "--position", 3, "--propensity", "power:0.3", "--json"
    )
    assert plan["sessions"] == pytest.approx(json.loads(by_hand[1])["sessions"], rel=0.1)


def test_plans_take_the_propensities_in_the_log(prsrank, tmp_path, sessions):
    columns = {n: v for n, v in rows_of(sessions).items() if n != "team"}
    # a context with other propensities: the mean by position counts
    columns["propensity"] = columns["position"] ** -1.0 * (0.5 + columns["session_id"] % 2)
    file = write_rows(tmp_path / "log.parquet", columns)
    options = ["plan", "experiment", file, "--position", 3, "--json"]
    logged_plan = json.loads(prsrank(*options)[1])
    assert logged_plan.pop("curve") == "the propensities in the log, their mean by position"
    given = json.loads(prsrank(*options, "--propensity", "power:1")[1])
    assert logged_plan == pytest.approx({n: given[n] for n in logged_plan}, nan_ok=True)


def test_a_gain_from_randomising_is_said_in_one_sentence(prsrank, log):
    command = ["plan", "experiment", log, "--position", 3, "--propensity", "power:3"]
    code, out, _ = prsrank(*command)
    assert code == 0
    assert "they gain about" in out
    assert "warning: a gain from randomising means that the order shown today is worse" in out
    assert json.loads(prsrank(*command, "--json")[1])["clicks_lost"] < 0


def test_plan_test(prsrank, log):
    command = ["plan", "test", log, "--gain", 0.05, "--propensity", "power:1"]
    code, out, _ = prsrank(*command, "--json")
    assert code == 0
    plan = json.loads(out)
    sessions = plan["small_change"]["sessions"]
    assert sessions < plan["reordered"]["sessions"] < plan["ab_sessions"]
    text = prsrank(*command)[1]
    assert f"A/B test: {plan['ab_sessions']:,} sessions, half of them in each arm" in text
    assert f"interleaving with a ranker that changes little: {sessions:,} sessions" in text
    assert "independent by session" in text
    too_much = prsrank("plan", "test", log, "--gain", 3, "--propensity", "power:1")[1]
    assert "changes little: not planned: no order of the docs shown gains 300.0%" in too_much


def test_interleave_counts_the_clicks_of_each_team(prsrank, tested, sessions):
    code, out, err = prsrank("interleave", tested, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    one, other = sessions.credit
    assert (found["production"], found["new"]) == (one.sum(), other.sum())
    assert (found["production_team"], found["new_team"]) == ("a", "b")
    assert found["difference"] == pytest.approx((other - one).mean())
    error = (other - one).std(ddof=1) / np.sqrt(4000)
    assert found["high"] - found["low"] == pytest.approx(2 * 1.96 * error, rel=0.001)
    assert found["verdict"] == "better"
    assert (found["sessions"], found["queries"], found["without_team"]) == (4000, 40, 0)
    text = prsrank("interleave", tested)[1]
    assert text.startswith("better: users click more on the docs of b than on those of a")


def test_interleave_by_query_and_from_the_other_side(prsrank, tested):
    code, out, _ = prsrank("interleave", tested, "--new", "a", "--by", "query")
    assert code == 0
    assert out.startswith("worse: users click less on the docs of a than on those of b")
    assert "by query)" in out


def test_a_team_called_new_is_the_new_one(prsrank, tmp_path, sessions):
    columns = rows_of(sessions, names=("production", "new"))
    found = prsrank("interleave", write_rows(tmp_path / "test.parquet", columns), "--json")[1]
    assert json.loads(found)["new_team"] == "new"


def test_sessions_and_docs_without_a_team(prsrank, tmp_path, sessions):
    columns = rows_of(sessions)
    # the first doc of each session, and all of some sessions, are not of the test
    columns["team"][columns["position"] == 1] = None
    columns["team"][columns["session_id"] < 100] = None
    columns["picked"] = columns.pop("team")
    file = write_rows(tmp_path / "test.parquet", columns)
    found = json.loads(prsrank("interleave", file, "--team", "picked", "--json")[1])
    assert (found["sessions"], found["without_team"]) == (3900, 100)
    assert found["new"] == (sessions.click & sessions.new)[100:, 1:].sum()


def test_a_draft_that_is_no_fair_coin_is_warned_of(prsrank, tmp_path, sessions):
    columns = rows_of(sessions)
    columns["team"] = np.array(["a", "b"], object)[columns["position"] % 2]
    code, _, err = prsrank("interleave", write_rows(tmp_path / "unfair.parquet", columns))
    assert code == 0
    assert "b picked the first doc in 100.0% of the sessions" in err


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"team": "a"}, [], "must name two teams, not a"),
        ({}, ["--team", "side"], "no column 'side'"),
        ({}, ["--new", "c"], "no team is called 'c': there are a and b"),
        ({}, ["--by", "user"], "session or query"),
        ({"doc_id": 7}, [], "shows a doc twice"),
        ({"position": 0}, [], "positions start at 1"),
    ],
)
def test_bad_tests(prsrank, tmp_path, sessions, change, options, message):
    columns = rows_of(sessions)
    for name, value in change.items():
        columns[name][:] = value
    code, _, err = prsrank("interleave", write_rows(tmp_path / "bad.parquet", columns), *options)
    assert code == 2
    assert message in err
