"""Saved rankers of every kind, their cards altered: refused in one line, or loaded."""

import json
import os
import shutil

import numpy as np
import pytest

from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.rankers.base import RANKERS, load_ranker, ranker_class
from prsrank.rankers.cards import checksum

_QUICK = {"trees": 2, "epochs": 1, "hidden": (8,), "missing": "impute", "seed": 0}


@pytest.fixture(scope="module")
def lists():
    return synthetic_dataset("mq2007", 12)


@pytest.fixture(scope="module", params=RANKERS)
def saved(request, lists, tmp_path_factory):
    """A ranker of each kind, trained on a few clicks."""
    kind = ranker_class(request.param)
    ranker = kind(**kind.accepted(**_QUICK))
    log = clicks_on(lists)
    given = None if not ranker.takes_propensities or ranker.takes == "log" else _curve
    pairs = ranker.pairs(log, lists, given() if given else None)
    folder = tmp_path_factory.mktemp("models") / request.param
    ranker.fit(lists, pairs).save(folder)
    return folder


def _curve():
    from prsrank.propensity.curve import PowerLaw

    return PowerLaw(1.0)


def clicks_on(lists):
    rng = np.random.default_rng(0)
    lengths = np.minimum(lists.list_lengths, 5)
    rows = {"query_id": np.repeat(lists.query_ids, lengths)}
    rows["session_id"] = np.repeat(np.arange(lists.lists), lengths)
    rows["doc_id"] = np.concatenate(
        [lists.doc_names[a : a + n] for a, n in zip(lists.offsets, lengths, strict=False)]
    )
    rows["position"] = np.concatenate([np.arange(1, n + 1) for n in lengths])
    rows["click"] = rng.random(lengths.sum()) < 0.4
    return ClickLog.from_frame(rows)


def with_card(saved, folder, change, *, right=True):
    """Copy a ranker with a changed card, the checksum put right."""
    shutil.copytree(saved, folder)
    card = json.loads((folder / "ranker.json").read_text())
    change(card)
    if right and isinstance(card.get("files"), dict):
        card["checksum"] = checksum(card)
    (folder / "ranker.json").write_text(json.dumps(card))
    return folder


_WRONG = (None, [], {}, "x", -1, 1.5, True, 10**30, [None], [[1]], ["x"], {"a": 1}, "../x")


def _paths(value, path=()):
    """Yield the path of every value of a card that scores depend on; of lists the first."""
    if path and path[0] in ("about", "versions", "checksum"):
        return
    if path:
        yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:1] if isinstance(value, list) else ())
    )
    for key, one in items:
        yield from _paths(one, (*path, key))


def test_every_value_of_a_card_may_be_wrong(saved, lists, tmp_path):
    card = json.loads((saved / "ranker.json").read_text())
    folder = tmp_path / "model"
    shutil.copytree(saved, folder)
    refused = 0
    for path in _paths(card):
        for wrong in _WRONG:
            changed = json.loads(json.dumps(card))
            at = changed
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = wrong
            try:
                changed["checksum"] = checksum(changed)
            except (TypeError, KeyError):
                del changed["checksum"]
            (folder / "ranker.json").write_text(json.dumps(changed))
            try:
                scores = load_ranker(folder).score(lists.features[:5])
                assert np.isfinite(scores).all(), (path, wrong)
            except InputError as error:
                refused += 1
                assert "\n" not in str(error)  # noqa: PT017
    assert refused > 60


def test_a_changed_weight_is_noticed(saved, tmp_path):
    def change(card):
        names = [name for name in ("weights_", "history", "best_epoch") if name in card["learned"]]
        card["learned"][names[0]] = [0.5] * 3

    with pytest.raises(InputError, match="its checksum differs"):
        load_ranker(with_card(saved, tmp_path / "model", change, right=False))


@pytest.mark.parametrize("name", ["../secret", "/dev/zero", "a/b", "..", ".", "", "x\0y"])
def test_files_do_not_leave_the_folder(saved, name, tmp_path):
    (tmp_path / "secret").write_text("s")

    def change(card):
        card["files"] = {name: "0" * 64}

    with pytest.raises(InputError, match="not in the folder of the ranker"):
        load_ranker(with_card(saved, tmp_path / "model", change))


def test_pipes_and_links_are_not_read(saved, tmp_path):
    def change(card):
        card["files"]["extra"] = "0" * 64

    folder = with_card(saved, tmp_path / "model", change)
    os.mkfifo(folder / "extra")
    with pytest.raises(InputError, match="is a device, pipe or socket"):
        load_ranker(folder)
    (folder / "extra").unlink()
    (folder / "extra").symlink_to("/etc/hostname" if os.path.exists("/etc/hostname") else __file__)
    with pytest.raises(InputError, match="is a link that leaves the folder"):
        load_ranker(folder)


def test_cards_of_earlier_versions_have_nochecksum(saved, lists, tmp_path):
    folder = with_card(saved, tmp_path / "model", lambda card: None)
    card = json.loads((folder / "ranker.json").read_text())
    del card["checksum"]
    (folder / "ranker.json").write_text(json.dumps(card))
    before, after = (load_ranker(one).score(lists.features) for one in (saved, folder))
    assert np.array_equal(before, after)
