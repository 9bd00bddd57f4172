"""Features that know this log's clicks or positions, and honest ones that only look like it."""

import numpy as np
import pytest

from prsrank.audit.leaks import (
    DocSample,
    FeatureValues,
    click_rate_ratio,
    click_within_docs,
    only_clicked_have_it,
)
from prsrank.cli import run

LEAKS = ("feature-click-rate", "feature-after-click", "feature-only-clicked")
POSITIONS = ("feature-is-position", "feature-is-doc-position")


def by_doc(events, values):
    """Return the sum over the rows of each row's doc, and the number of those rows."""
    _, doc = np.unique(events["doc_id"], return_inverse=True)
    return np.bincount(doc, values)[doc], np.bincount(doc)[doc], doc


@pytest.fixture(scope="module")
def log(simulate):
    """A log, clicks and impressions of each row's doc, and a click rate of another such log."""
    events = simulate(sessions=2000, queries=60, length=8)
    clicks, shown, doc = by_doc(events, events["click"])
    rng = np.random.default_rng(1)
    # Laplace's smoothing keeps the other log's rate off 0 where this one has no clicks
    other = rng.binomial(shown, (clicks + 1) / (shown + 2))[np.unique(doc, return_index=True)[1]]
    return events, clicks, shown, other[doc] / shown


def flagged(audited, events, feature, codes):
    found = audited(events | {"x": feature}, features=["x"])
    return {f.code for f in found.findings if f.code in codes}, found


@pytest.mark.parametrize(
    "leaked",
    [
        lambda clicks, shown, other: clicks / shown,
        lambda clicks, shown, other: clicks.astype(float),
        lambda clicks, shown, other: np.log((clicks + 1) / (shown + 5)),
        lambda clicks, shown, other: -((clicks / shown + other) / 2),
    ],
    ids=["rate", "count", "smoothed", "half of it"],
)
def test_the_click_rate_of_this_log_is_an_error(log, audited, leaked):
    events, clicks, shown, other = log
    codes, found = flagged(audited, events, leaked(clicks, shown, other), LEAKS)
    assert codes == {"feature-click-rate"}
    assert found.verdict == "not usable"
    assert found.findings[0].where.startswith("x (")


def test_the_click_rate_of_another_log_is_honest(log, audited):
    events, clicks, shown, other = log
    assert np.corrcoef(other, clicks / shown)[0, 1] > 0.6
    assert flagged(audited, events, other, LEAKS + POSITIONS + ("feature-leak",))[0] == set()


def test_the_click_of_docs_shown_once(audited, simulate):
    events = simulate(sessions=100, queries=100_000, rankers=1)
    leaked = 1.0 + 0.01 * np.random.default_rng(0).random(800) - events["click"]
    assert flagged(audited, events, leaked, LEAKS)[0] == {"feature-click-rate"}


def test_a_click_rate_in_a_table_beside_the_log(log, tmp_path, capsys):
    import duckdb

    events, clicks, shown, other = log
    table = {"query_id": events["query_id"], "doc_id": events["doc_id"]}
    with duckdb.connect() as connection:
        for name, columns in (
            ("log", events),
            ("leak", table | {"rate": clicks / shown}),
            ("good", table | {"rate": other}),
        ):
            names = ", ".join(columns)
            frame = {key: np.asarray(value) for key, value in columns.items()}  # noqa: F841
            connection.sql(f"SELECT DISTINCT {names} FROM frame").write_parquet(  # noqa: S608
                str(tmp_path / f"{name}.parquet")
            )
    codes = [
        run(["audit", f"{tmp_path}/log.parquet", "--features", f"{tmp_path}/{table}.parquet"])
        for table in ("leak", "good")
    ]
    assert codes == [1, 0]
    assert "rate (docs with nearly equal values differ by 0" in capsys.readouterr().out


@pytest.mark.parametrize("of", [lambda k: 1 / k, lambda k: -np.log(k), np.sqrt])
@pytest.mark.parametrize("rankers", [1, 2])
def test_positions_in_disguise(log, audited, simulate, of, rankers):
    events = simulate(sessions=600, queries=60, rankers=rankers)
    total, shown, _ = by_doc(events, events["position"])
    assert "feature-is-doc-position" in flagged(audited, events, of(total / shown), POSITIONS)[0]
    assert "feature-is-position" in flagged(audited, events, of(events["position"]), POSITIONS)[0]


def test_a_production_score_is_no_position(audited, simulate):
    """It has the position's order within each query, but not the same values in all."""
    events = simulate(sessions=600, queries=60, rankers=1)
    level = np.random.default_rng(0).uniform(1, 5, 60)[events["query_id"]]
    assert flagged(audited, events, level / events["position"] ** 0.5, POSITIONS)[0] == set()


@pytest.mark.parametrize("missing", [np.nan, 0.0, -1.0])
def test_a_value_that_only_clicked_docs_have(audited, simulate, missing):
    events = simulate(sessions=500, queries=150)
    clicks, _, doc = by_doc(events, events["click"])
    price = np.random.default_rng(0).uniform(1, 9, doc.max() + 1)[doc]
    codes, found = flagged(audited, events, np.where(clicks > 0, price, missing), LEAKS)
    # of docs with few impressions, whether they were clicked is most of their click rate
    assert len(codes & {"feature-only-clicked", "feature-click-rate"}) == 1
    assert found.verdict == "not usable"
    honest = np.where(events["doc_id"] % 3 > 0, price, missing)
    assert flagged(audited, events, honest, LEAKS)[0] == set()


def test_docs_with_many_impressions_are_clicked_by_right():
    """100 impressions at a rate of 0.3: none is expected to stay without a click."""
    size = 1000
    good = np.arange(size) % 2
    clicked = np.random.default_rng(0).binomial(100, 0.3, size) * good
    sample = sample_of(np.full(size, 100.0), clicked)
    assert only_clicked_have_it(sample, constant(sample, good * 1.0)) == 0
    once = sample_of(np.ones(size), good)
    assert only_clicked_have_it(once, constant(once, good * 1.0)) == size // 2


def test_a_value_from_after_the_click(log, audited):
    events, *_ = log
    rng = np.random.default_rng(0)
    size = len(events["click"])
    _, _, doc = by_doc(events, events["click"])
    # between docs the value differs much more than by the click
    base = 20 * rng.random(doc.max() + 1)[doc]
    late = base + events["click"] * (1 + rng.random(size))
    codes, found = flagged(audited, events, late, LEAKS)
    assert codes == {"feature-after-click"}
    assert found.verdict == "not usable"
    assert abs(np.corrcoef(late, events["click"])[0, 1]) < 0.5
    personal = base + rng.random(size) + 0.3 * events["click"]
    assert flagged(audited, events, personal, LEAKS)[0] == set()


def test_the_ratio_is_1_for_the_true_rate_and_0_for_the_clicks():
    rng = np.random.default_rng(0)
    shown = rng.integers(2, 60, 5000).astype(float)
    rate = rng.beta(1, 4, 5000)
    sample = sample_of(shown, rng.binomial(shown.astype(int), rate))
    true = click_rate_ratio(sample, constant(sample, rate))
    assert true.ratio == pytest.approx(1, abs=0.05)
    assert abs(true.z) < 3
    leaked = click_rate_ratio(sample, constant(sample, sample.clicked / sample.shown))
    assert leaked.ratio < 0.01
    assert leaked.leaks


def test_the_correlation_within_docs_is_that_of_the_rows():
    """Of rows centred by their doc, computed row by row."""
    rng = np.random.default_rng(0)
    doc = rng.integers(60, size=3000)
    click = rng.random(3000) < 0.3
    x = doc + click * 2.0 + rng.normal(size=3000)
    parts = [(x[doc == d], click[doc == d]) for d in range(60)]
    rows = np.concatenate([[a - a.mean(), b - b.mean()] for a, b in parts], axis=1)
    values = FeatureValues(
        *np.array([[a.mean(), a.var(), len(a), b.sum(), a[b].mean()] for a, b in parts]).T
    )
    sample = sample_of(values.known, values.known_clicked)
    assert click_within_docs(sample, values) == pytest.approx(np.corrcoef(rows)[0, 1])


def sample_of(shown, clicked):
    size = len(shown)
    ones = np.ones(size)
    return DocSample(np.arange(size).astype(str), shown, clicked * 1.0, ones, ones, {})


def constant(sample, values):
    zeros = np.zeros(len(values))
    return FeatureValues(values, zeros, sample.shown, sample.clicked, values)
