"""The page of the explorer as text."""

import base64
import hashlib
import re
from dataclasses import replace

import numpy as np
import pytest
from explorer_pages import made, unpacked

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.base import make_ranker
from prsrank.report.explorer import (
    LARGEST,
    PageTexts,
    contributions,
    explorer_html,
    most_used,
    packed,
    rounded,
)

SCRIPT = re.compile(r'<script type="text/plain" id="([\w-]+)">([^<]*)</script>')


def blocks_of(page):
    return {name: unpacked(block) for name, block in SCRIPT.findall(page)}


@pytest.fixture(scope="module")
def large():
    """A thousand queries of 50 docs with titles, and six rankers of 46 features."""
    ids = [f"sku-{i * 7919 % 100_003}" for i in range(50_000)]
    found, lists, rankers = made(1000, 50, doc_ids=ids)
    titles = [f"Title of the doc {i * 31 % 977} in colour {i % 17}" for i in range(50_000)]
    return explorer_html(found, lists, rankers, PageTexts(columns={"title": titles}))


def test_a_thousand_queries_of_50_docs_fit_with_the_reasons_of_the_first_ranker(large):
    assert len(large.encode()) <= LARGEST
    names = [name for name, _ in SCRIPT.findall(large)]
    assert names[:2] == ["explored", "contributions-0"]


def test_a_small_page_has_the_contributions_of_all_rankers():
    found, lists, rankers = made(8, 5, features=30)
    blocks = blocks_of(explorer_html(found, lists, rankers, PageTexts()))
    assert len(blocks) == 1 + len(rankers)
    for index, ranker in enumerate(rankers.values()):
        meta, arrays = blocks[f"contributions-{index}"]
        assert (len(meta["features"]), meta["others"]) == (20, 10)
        columns = [lists.feature_names.index(name) for name in meta["features"]]
        expected = (lists.features * ranker.weights_)[:, columns].T.ravel()
        np.testing.assert_allclose(arrays["values"], expected, rtol=1e-3)
        np.testing.assert_allclose(arrays["scores"], ranker.score(lists.features), rtol=1e-5)


def test_where_space_is_short_few_features_stay_then_none():
    found, lists, rankers = made(40, 20, features=30, names=("one",))
    whole = explorer_html(found, lists, rankers, PageTexts())
    alone = len(explorer_html(found, lists, rankers, PageTexts(), largest=0))
    for space, features in ((0.7, 10), (0.4, 5)):
        limit = int(alone + space * (len(whole) - alone))
        page = explorer_html(found, lists, rankers, PageTexts(), largest=limit)
        assert len(page) <= limit
        assert len(blocks_of(page)["contributions-0"][0]["features"]) == features
    assert list(
        blocks_of(explorer_html(found, lists, rankers, PageTexts(), largest=alone + 9))
    ) == ["explored"]


def test_numbers_and_texts_are_in_the_page():
    why, names = np.array([1, -1, 3]), ("one", "two")
    few, lists, rankers = made(3, 2, names=names, query_ids=["a", "b", "c"], why=why)
    few = replace(few, queries=3)
    columns = {"text": ["A", "A", "C", "C"], "title": ["1", "2", "3", "4"]}
    texts = PageTexts("log", "given", "note", {"one": "The one"}, columns, np.array(["c", "x"]))
    meta, arrays = blocks_of(explorer_html(few, lists, rankers, texts))["explored"]
    assert meta["rankers"] == [["one", "The one"], ["two", "two"]]
    assert meta["queries"] == ["a", "c"]
    assert meta["docs"] == ["0", "1", "0", "1"]
    assert meta["queryColumns"] == {"text": ["A", "C"]}
    assert meta["docColumns"] == {"title": ["1", "2", "3", "4"]}
    assert (meta["all"], meta["picked"], meta["heldOut"]) == (3, [0, 1, 0, 1], [1])
    assert arrays["offsets"].tolist() == [0, 2, 4]
    assert arrays["ranks"].tolist() == few.ranks.ravel().tolist()
    np.testing.assert_allclose(arrays["gain"], few.gain.ravel(), rtol=1e-6)
    np.testing.assert_allclose(arrays["theta"], few.evidence["theta"], rtol=1e-3)


def test_the_policy_allows_the_script_of_the_page_alone(evil):
    found, lists, rankers = made(1, 2, names=("one",), doc_ids=[evil, "\u2028"])
    page = explorer_html(found, lists, rankers, PageTexts(source=evil, note=evil))
    assert evil not in page
    assert "onerror" not in page
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}'" in page
    assert not re.search(r'(?:src|href)="(?!data:,|#)', page.split("<script>")[0])
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", page)


@pytest.fixture(scope="module")
def dataset():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 5))
    features[rng.random(features.shape) < 0.1] = np.nan
    labels = np.nan_to_num(features[:, 0] + features[:, 1]) > 0.5
    return RankingDataset(features, np.arange(0, 301, 10), labels=labels)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("linear", {"missing": "impute"}), ("lambdamart", {"trees": 8, "min_docs": 5})],
)
def test_they_add_up_to_the_score_but_for_a_constant(dataset, name, settings):
    kind = make_ranker(name, None, {})[0]
    ranker, _, _ = make_ranker(name, None, kind.accepted(**settings))
    ranker.fit(dataset, PairSet.from_labels(dataset, **ranker.pair_options))
    found = contributions(ranker, dataset.features)
    assert found.shape == dataset.features.shape
    scores = ranker.score(dataset.features)
    assert np.ptp(scores) > 0.1
    assert np.ptp(scores - found.sum(axis=1)) < 1e-6 * np.ptp(scores)
    assert set(most_used(found, 2)) == {0, 1}


def test_a_ranker_that_cannot_be_laid_open_has_none():
    class Closed:
        def scorer(self):
            raise InputError("no export")

    assert contributions(Closed(), np.zeros((2, 3))) is None


def test_what_is_packed_comes_back():
    meta = {"ids": ["</script>", "\u2028", "\"'&", "Zürich"], "none": None}
    arrays = {
        "whole": np.array([0, 7, 2**32 - 1]),
        "real": np.array([[0.5, -1.25], [3.0, np.pi]]),
        "empty": np.zeros(0, np.int64),
    }
    block = packed(meta, arrays)
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", block)
    found, numbers = unpacked(block)
    assert found == meta
    assert numbers["whole"].tolist() == [0, 7, 2**32 - 1]
    np.testing.assert_array_equal(numbers["real"], arrays["real"].astype(np.float32).ravel())
    assert numbers["empty"].size == 0
    assert packed(meta, arrays) == block


def test_rounded_numbers_are_near_and_pack_smaller():
    rng = np.random.default_rng(0)
    values = rng.lognormal(0, 5, 10_000) * rng.choice([-1.0, 1.0], 10_000)
    found = rounded(values)
    assert np.abs(found / values - 1).max() <= 1 / 4096
    assert len(packed({}, {"v": found})) < 0.8 * len(packed({}, {"v": values}))
    assert rounded([0.0, 1.0, -2.0]).tolist() == [0.0, 1.0, -2.0]
