"""Findings on logs whose faults are made on purpose, and the verdict that follows."""

import json

import duckdb
import numpy as np
import pytest

from prsrank.audit import audit
from prsrank.audit.catalogue import KINDS, SEVERITIES
from prsrank.audit.findings import Audit, Finding, worst_first
from prsrank.errors import InputError
from prsrank.logs.event_source import open_frame, source_of
from prsrank.logs.events import from_source


def codes(found):
    return {finding.code for finding in found.findings}


def the(found, code):
    (finding,) = [finding for finding in found.findings if finding.code == code]
    return finding


def changed(events, **columns):
    return {name: np.array(values) for name, values in (events | columns).items()}


def small(length=4, sessions=50, **columns):
    """Return lists of the same docs in the same order, the first doc clicked."""
    events = {
        "query_id": np.zeros(length * sessions, int),
        "session_id": np.repeat(np.arange(sessions), length),
        "doc_id": np.tile(np.arange(length), sessions),
        "position": np.tile(np.arange(1, length + 1), sessions),
        "click": np.tile((np.arange(length) == 0).astype(int), sessions),
    }
    return events | columns


def test_clean_log_is_ready(clean, audited):
    found = audited(clean)
    assert found.verdict == "ready"
    assert codes(found) == {"lists-without-clicks", "repeated-lists", "position-base"}


def test_counts_are_those_of_the_events(clean, audited):
    found = audited(clean)
    lists = clean["doc_id"].reshape(-1, 8)
    assert found.counts == {
        "rows": len(clean["click"]),
        "sessions": 3000,
        "lists": len(np.unique(lists, axis=0)),
        "queries": len(np.unique(clean["query_id"])),
        "docs": len(np.unique(clean["doc_id"])),
        "clicks": clean["click"].sum(),
        "positions": 8,
        "randomised_sessions": 0,
    }
    bare = (clean["click"].reshape(-1, 8).sum(axis=1) == 0).sum()
    assert the(found, "lists-without-clicks").count == bare
    assert the(found, "repeated-lists").count == 3000 - found.counts["lists"]
    for at in found.positions:
        chosen = clean["position"] == at.position
        assert (at.shown, at.clicks) == (chosen.sum(), clean["click"][chosen].sum())


def test_order_of_rows_does_not_matter(clean, audited):
    order = np.random.default_rng(1).permutation(len(clean["click"]))
    mixed = {name: values[order] for name, values in clean.items()}
    assert audited(mixed).to_dict() == audited(clean).to_dict()


def test_worst_first():
    order = [finding.severity for finding in worst_first([Finding(c, "") for c in reversed(KINDS)])]
    assert order == sorted(order, key=SEVERITIES.index)
    assert set(order) == set(SEVERITIES)


@pytest.mark.parametrize(
    ("findings", "verdict"),
    [
        ([], "ready"),
        ([Finding("position-base", "")], "ready"),
        ([Finding("few-clicks", "")], "usable with warnings"),
        ([Finding("few-clicks", ""), Finding("no-clicks", "")], "not usable"),
    ],
)
def test_verdict(findings, verdict):
    assert Audit({}, findings).verdict == verdict


def test_zero_based_log_is_audited_as_if_from_one(clean, audited):
    found = audited(changed(clean, position=clean["position"] - 1))
    assert the(found, "positions-from-zero").count == 3000
    assert found.positions == audited(clean).positions
    assert codes(found) == (codes(audited(clean)) - {"position-base"}) | {"positions-from-zero"}


def test_base_mixed_by_context(clean, audited):
    device = np.where(clean["session_id"] % 3 == 0, "phone", "desk").astype(object)
    position = clean["position"] - (device == "phone")
    finding = the(
        audited(changed(clean, position=position) | {"device": device}, contexts=["device"]),
        "position-base-mixed",
    )
    assert "phone from 0" in finding.what
    assert "desk from 1" in finding.what


def test_consistent_gap_names_the_slot(clean, audited):
    position = clean["position"] + (clean["position"] >= 5)
    found = audited(changed(clean, position=position))
    assert "position 5" in the(found, "gap-consistent").what
    assert "gap-inconsistent" not in codes(found)
    assert found.verdict == "ready"


def test_inconsistent_gaps(clean, audited):
    keep = (np.random.default_rng(0).random(len(clean["click"])) > 0.1) | (clean["click"] == 1)
    found = audited({name: values[keep] for name, values in clean.items()})
    sessions = np.split(
        clean["position"][keep], np.flatnonzero(np.diff(clean["session_id"][keep])) + 1
    )
    gaps = sum(1 for s in sessions if len(s) < s[-1] - s[0] + 1)
    assert the(found, "gap-inconsistent").count == gaps
    assert "gap-consistent" not in codes(found)


def test_second_pages(clean, audited):
    position = clean["position"] + np.where(clean["session_id"] % 2, 10, 0)
    finding = the(audited(changed(clean, position=position)), "lists-begin-late")
    assert finding.count == 1500


def test_rising_click_rate(clean, audited):
    found = audited(changed(clean, position=9 - clean["position"]))
    assert "ctr-rises" in codes(found)


def test_position_without_clicks(clean, audited):
    click = np.where(clean["position"] == 3, 0, clean["click"])
    finding = the(audited(changed(clean, click=click)), "position-never-clicked")
    assert "position 3 " in finding.what
    assert finding.count == 3000


def test_few_clicks_and_every_doc_clicked(audited):
    found = audited(small(click=np.repeat((np.arange(50) < 5).astype(int), 4)))
    assert the(found, "few-clicks").count == 20
    assert the(found, "every-doc-clicked").count == 5
    assert "no-pairs" in codes(found)


def test_single_doc_lists(clean, audited):
    keep = (clean["session_id"] >= 1000) | (clean["position"] == 1)
    found = audited({name: values[keep] for name, values in clean.items()})
    assert the(found, "single-doc-lists").count == 1000


def test_session_ids_of_several_queries_are_fine(clean, audited):
    found = audited(changed(clean, session_id=clean["session_id"] // 2))
    assert "session-id-shared" in codes(found)


def clients(events, *, robot_sessions):
    """Name clients of ten sessions each; the first sessions are those of a robot."""
    client = (events["session_id"] // 10).astype(str).astype(object)
    client[events["session_id"] < robot_sessions] = "robot"
    return client


def test_robot_that_clicks_everything(clean, audited):
    client = clients(clean, robot_sessions=100)
    click = np.where(client == "robot", 1, clean["click"])
    time = clean["session_id"] * 60_000_000 * 5 + 1_700_000_000_000_000
    time[client == "robot"] = 1_700_000_000_000_000
    found = audited(changed(clean, click=click, timestamp=time) | {"client_id": client})
    assert the(found, "client-clicks-everything").where == "client robot"
    finding = the(found, "client-too-fast")
    assert finding.where == "client robot"
    assert "up to 800" in finding.what
    assert finding.of == len(np.unique(client))


def test_clicks_with_times_of_their_own_are_counted_by_minute(clean, audited):
    """40 clicks at once are too fast; the same 40 clicks two minutes apart are not."""
    client = np.where(clean["session_id"] < 40, "fast", "slow").astype(object)
    for apart, expected in ((0, True), (120_000_000, False)):
        place = clean["session_id"] * 8 + clean["position"]
        time = np.where(client == "fast", 10**15 + place * apart, 2 * 10**15 + place * 10**9)
        found = audited(clean | {"client_id": client, "timestamp": time})
        assert ("client-too-fast" in codes(found)) == expected


def test_heavy_client(clean, audited):
    client = clients(clean, robot_sessions=1000)
    finding = the(audited(clean | {"client_id": client}), "client-heavy")
    assert finding.where == "client robot"
    assert "1,000" in finding.what


def test_clients_that_read(clean, audited):
    found = audited(clean | {"client_id": clients(clean, robot_sessions=0)})
    assert not {code for code in codes(found) if code.startswith("client")}


def test_features(clean, audited):
    rng = np.random.default_rng(0)
    size = len(clean["click"])
    good = (clean["doc_id"] % 7).astype(float)
    features = {
        "good": good,
        "same": np.full(size, 3.0),
        "holes": np.where(clean["doc_id"] % 3 == 0, np.nan, good),
        "endless": np.where(clean["doc_id"] % 5 == 0, np.inf, good),
        "moving": rng.random(size),
        "bought": clean["click"] * 9.5,
        "present": np.where(clean["click"] == 1, good, np.nan),
        "place": clean["position"] * 2.0,
        "words": np.full(size, "red", object),
    }
    found = audited(clean | features, features=list(features))
    named = {f.code: f.where for f in found.findings if f.code.startswith("feature")}
    assert named["feature-not-numeric"] == "words (VARCHAR)"
    assert named["feature-constant"] == "same (3)"
    assert "endless" in named["feature-infinite"]
    assert set(_names(named["feature-missing"])) == {"holes", "present"}
    assert set(_names(named["feature-leak"])) == {"bought", "present"}
    assert set(_names(named["feature-is-position"])) == {"place"}
    assert set(_names(named["feature-changes"])) == {"moving", "bought", "present", "place"}
    share = np.isnan(features["holes"]).mean()
    assert f"holes ({share:.1%})" in named["feature-missing"]


def _names(text):
    return [part.split(" ")[0] for part in text.split(", ")]


def test_good_features(clean, audited):
    found = audited(clean | {"x": (clean["doc_id"] % 7).astype(np.float32)}, features=["x"])
    assert found.verdict == "ready"


def test_boolean_columns_of_a_csv_file(tmp_path):
    file = tmp_path / "log.csv"
    rows = ["1,1,a,1,true,false", "1,1,b,2,false,true"]
    file.write_text("\n".join(["query_id,session_id,doc_id,position,click,x", *rows, ""]))
    with duckdb.connect() as connection:
        found = audit(source_of(connection.read_csv(str(file))), features=["x"])
    assert found.counts["clicks"] == 1
    assert not found.errors


def times(events):
    return 1_700_000_000_000_000 + events["session_id"] * 3_600_000_000


def test_no_drift(clean, audited):
    found = audited(clean | {"timestamp": times(clean)})
    assert found.verdict == "ready"
    assert len(found.periods) == 10
    assert sum(period.rows for period in found.periods) == len(clean["click"])
    assert sum(period.clicks for period in found.periods) == clean["click"].sum()


def test_drift_of_clicks(clean, audited):
    late = clean["session_id"] > 2000
    click = np.where(late & (clean["doc_id"] % 2 == 0), 0, clean["click"])
    assert "drift-clicks" in codes(audited(changed(clean, click=click, timestamp=times(clean))))


def test_drift_of_positions(clean, audited):
    late = clean["session_id"] > 1500
    position = np.where(late, 9 - clean["position"], clean["position"])
    found = audited(changed(clean, position=position, timestamp=times(clean)))
    assert "drift-positions" in codes(found)
    assert "drift-clicks" not in codes(found)


def test_drift_of_queries(clean, audited):
    query = clean["query_id"] + np.where(clean["session_id"] > 1500, 1000, 0)
    found = audited(changed(clean, query_id=query, timestamp=times(clean)))
    assert the(found, "drift-queries").severity == "note"


def test_ids_nearly_equal(audited):
    query = np.where(np.arange(200) < 100, "Red  shoes", "red shoes ").astype(object)
    finding = the(audited(small(query_id=query)), "ids-nearly-equal")
    assert finding.where == "'Red  shoes' and 'red shoes '"
    assert (finding.count, finding.of) == (2, 2)


@pytest.mark.parametrize("mark", ["uniform", "top-k:4", "swap:1:3"])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_random_sessions_look_random(mark, share, simulate, audited):
    def design(rng):
        return mark if rng.random() < share else ""

    for seed in range(2):
        found = audited(simulate(design=design, seed=seed, sessions=2000))
        assert "randomised-not-random" not in codes(found)


@pytest.mark.parametrize("rankers", [1, 2])
@pytest.mark.parametrize("mark", ["uniform", "top-k:4", "swap:1:3"])
def test_sessions_marked_but_not_shuffled(mark, rankers, simulate, audited):
    events = simulate(rankers=rankers, sessions=2000)
    events["randomised"] = np.where(events["session_id"] % 2 == 0, mark, "").astype(object)
    finding = the(audited(events), "randomised-not-random")
    assert finding.count == 1000


def test_shuffled_once_per_query_beside_ordinary_sessions(simulate, audited):
    """Docs seen once in marked sessions are compared with their places in the others."""
    events = simulate(rankers=1, sessions=600, queries=300)
    first = np.zeros(600, bool)
    first[np.unique(events["query_id"][::8], return_index=True)[1]] = True
    events["randomised"] = np.where(np.repeat(first, 8), "uniform", "").astype(object)
    assert "ordinary sessions" in the(audited(events), "randomised-not-random").what


def test_to_dict_is_json(clean, audited):
    found = audited(clean | {"timestamp": times(clean)})
    again = json.loads(json.dumps(found.to_dict()))
    assert again["verdict"] == "ready"
    assert again["best_estimator"] == "harvest"
    assert [f["code"] for f in again["findings"]] == [f.code for f in found.findings]


def faults():
    """Return changes to the columns of `small`, harmless ones too."""
    size = 200
    first = np.arange(size) == 7
    return {
        "none": {},
        "zero": {"position": np.tile(np.arange(4), 50)},
        "negative": {"position": np.where(first, -1, np.tile(np.arange(1, 5), 50))},
        "large": {"position": np.where(first, 10**9, np.tile(np.arange(1, 5), 50))},
        "half": {"position": np.where(first, 4.5, np.tile(np.arange(1, 5), 50))},
        "nan": {"position": np.where(first, np.nan, np.tile(np.arange(1, 5), 50))},
        "gap": {"position": np.tile([1, 2, 4, 5], 50)},
        "same doc": {"doc_id": np.tile([0, 1, 1, 2], 50)},
        "same position": {"position": np.tile([1, 2, 2, 3], 50)},
        "same session": {"session_id": np.zeros(size, int)},
        "all clicked": {"click": np.ones(size, int)},
        "twice clicked": {"click": np.where(first, 2, 0) + np.tile([1, 0, 0, 0], 50)},
        "design": {"randomised": np.full(size, "uniform", object)},
        "bad design": {"randomised": np.full(size, "swap:0:1", object)},
        "two designs": {"randomised": np.where(first, "uniform", "").astype(object)},
        "true": {"randomised": np.ones(size, bool)},
        "numbers": {"randomised": np.ones(size)},
        "p": {"propensity": np.full(size, 0.5)},
        "p above 1": {"propensity": np.full(size, 1.5)},
        "p missing": {"propensity": np.where(first, np.nan, 0.5)},
        "p infinite": {"propensity": np.where(first, np.inf, 0.5)},
        "p zero": {"propensity": np.zeros(size)},
        "p zero unclicked": {"propensity": np.tile([1.0, 0.0, 0.0, 0.0], 50)},
        "time": {"timestamp": np.full(size, 1_700_000_000_000_000)},
        "time in seconds": {"timestamp": np.full(size, 1_700_000_000)},
        "fraction": {"query_id": np.full(size, 0.5)},
        "text ids": {"doc_id": np.tile(np.array(["a", "b", "c", "d"], object), 50)},
        "placeholder": {"doc_id": np.tile(np.array(["a", "b", "c", "null"], object), 50)},
        "boolean clicks": {"click": np.tile([True, False, False, False], 50)},
        "late": {"position": np.tile([11, 12, 13, 14], 50)},
    }


@pytest.mark.filterwarnings("ignore::prsrank.errors.DataWarning")
@pytest.mark.parametrize("name", faults())
def test_errors_are_what_reading_refuses(name, audited):
    events = small(**faults()[name])
    with open_frame(events) as source:
        try:
            from_source(source)
            refused = False
        except InputError:
            refused = True
    assert bool(audited(events).errors) == refused
