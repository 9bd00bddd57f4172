"""The explorer: one web page in which queries are looked at, one by one."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import indices_of, texts_of
from prsrank.errors import InputError
from prsrank.files import FileName, atomic_output
from prsrank.rankers.scorers import LinearSum
from prsrank.rankers.trees import TreeEnsemble
from prsrank.report.explorer_data import PICKED, Explored, split_columns
from prsrank.report.html import asset, script_hash, template
from prsrank.threads import thread_count
from prsrank.types import Floats, IdArray, Longs, Reals

if TYPE_CHECKING:
    from prsrank.rankers.base import Ranker

LARGEST = 5_000_000
"""Bytes of a page: contributions are left out beyond."""

_SCRIPTS = (
    "explorer_page.js",
    "explorer_view.js",
    "explorer_query.js",
    "explorer_why.js",
    "explorer_csv.js",
    "explorer.js",
)
_COUNTS = ("impressions", "clicks")
_FEATURES = (20, 10, 5)
_BYTES_PER_VALUE = 1.8  # at least, of a packed contribution


@dataclass(frozen=True)
class PageTexts:
    """What a page says beside its numbers.

    Attributes:
        source: where the log is.
        curve: where the propensities come from.
        note: what the rankers learned from.
        titles: of rankers, by name; a ranker without one is called by its name.
        columns: text of each doc by column.
        held_out: queries that no judged ranker learned from.
    """

    source: str = ""
    curve: str = ""
    note: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    held_out: IdArray = field(default_factory=lambda: np.zeros(0, np.int64))


def write_explorer(page: str, path: FileName) -> None:
    """Write a page to one HTML file, whole or not at all."""
    with atomic_output(path) as draft:
        draft.write_text(page, encoding="utf-8")


def explorer_html(
    explored: Explored,
    lists: RankingDataset,
    rankers: Mapping[str, "Ranker"],
    texts: PageTexts,
    *,
    largest: int = LARGEST,
) -> str:
    """Return the page. No text of it is put in as HTML: all data are packed, and unpacked as text.

    Args:
        explored: the queries.
        lists: the features of their docs, in the order that the rankers know.
        rankers: by name, those of `explored`.
        texts: what it says beside.
        largest: bytes of the page, beyond which contributions are left out: those of the last
            rankers first, and the least used features.
    """
    blocks = [("explored", packed(_meta(explored, texts), _arrays(explored)))]
    left = largest - len(_page(blocks).encode())
    for index, name in enumerate(explored.rankers):
        features = lists.features[explored.rows]
        block = _contributions(rankers[name], features, lists.feature_names, left)
        if block is not None:
            blocks.append((f"contributions-{index}", block))
            left -= len(block) + 100  # and the element around it
    return _page(blocks)


def _page(blocks: Sequence[tuple[str, str]]) -> str:
    from markupsafe import Markup

    script = "\n".join(asset(name) for name in _SCRIPTS)
    page: str = template("explorer.html.j2").render(
        blocks=blocks,
        css=Markup(asset("report.css") + asset("explorer.css")),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704 - our own file
        hash=script_hash(script),
    )
    return page


def _meta(explored: Explored, texts: PageTexts) -> dict[str, Any]:
    of_queries, of_docs = split_columns(
        {name: list(values) for name, values in texts.columns.items()}, explored.offsets.tolist()
    )
    picked = explored.picked
    counts = None if picked is None else np.bincount(picked, minlength=len(PICKED)).tolist()
    held_out = np.flatnonzero(indices_of(explored.query_ids, texts.held_out) >= 0)
    return {
        "source": texts.source,
        "curve": texts.curve,
        "note": texts.note,
        "rankers": [[name, texts.titles.get(name, name)] for name in explored.rankers],
        "queries": texts_of(explored.query_ids).tolist(),
        "docs": texts_of(explored.doc_ids).tolist(),
        "queryColumns": of_queries,
        "docColumns": of_docs,
        "all": explored.queries,
        "reasons": list(PICKED),
        "picked": counts,
        "anyHeldOut": bool(len(texts.held_out)),
        "heldOut": held_out.tolist(),
    }


def _arrays(explored: Explored) -> dict[str, Any]:
    evidence = {
        name: values.round().astype(np.int64) if name in _COUNTS else rounded(values)
        for name, values in explored.evidence.items()
    }
    return {
        "offsets": explored.offsets,
        "sessions": explored.sessions.round().astype(np.int64),
        "picked": np.zeros(0, np.int64) if explored.picked is None else explored.picked,
        "gain": explored.gain,
        "deviation": rounded(explored.deviation),
        **evidence,
        "logged": explored.logged,
        "ranks": explored.ranks,
    }


def _contributions(ranker: "Ranker", features: Any, names: Sequence[str], left: int) -> str | None:
    """Return the packed contributions of as many features as there is space for, if any."""
    docs = len(features)
    if left < docs * _FEATURES[-1] * _BYTES_PER_VALUE:  # not worth the minutes it may take
        return None
    values = contributions(ranker, features)
    if values is None:
        return None
    scores = ranker.score(features)
    for count in _FEATURES:
        used = most_used(values, count)
        meta = {"features": [str(names[i]) for i in used], "others": values.shape[1] - len(used)}
        # feature by feature; scores in full, for two docs may differ by little
        block = packed(meta, {"scores": scores, "values": rounded(values[:, used].T)})
        if len(block) + 100 <= left:
            return block
    return None


def contributions(ranker: "Ranker", features: npt.ArrayLike) -> Floats | None:
    """Return what each feature adds to each doc's score (docs x features); None for a net.

    With a constant that is the same for all docs they add up to the score: those of trees are
    LightGBM's own (TreeSHAP), those of a linear ranker weight times standardised value.

    Args:
        ranker: a fitted ranker.
        features: in its order, one row per doc.
    """
    try:
        scorer = ranker.scorer()
    except InputError:
        return None
    if isinstance(scorer, TreeEnsemble):
        import lightgbm

        booster, threads = lightgbm.Booster(model_str=scorer.text), thread_count(None)
        parts = booster.predict(np.asarray(features), pred_contrib=True, num_threads=threads)
        return np.asarray(parts)[:, :-1]  # the last column is the constant
    if isinstance(scorer, LinearSum):
        parts = scorer.scaling.transform(np.asarray(features)) * scorer.weights
        total = parts[:, : scorer.columns]
        # that a value is missing counts for its feature
        total[:, scorer.scaling.indicators] += parts[:, scorer.columns :]
        return total
    return None


def most_used(values: Floats, count: int) -> Longs:
    """Return the features whose contributions differ most between docs, most used first.

    A contribution that all docs have alike moves none of them.

    >>> most_used(np.array([[5.0, 1.0, 0.0], [5.0, -1.0, 3.0]]), 2).tolist()
    [2, 1]
    """
    return np.argsort(-values.std(axis=0), kind="stable")[:count]


def packed(meta: Any, arrays: Mapping[str, npt.NDArray]) -> str:
    """Return a value and arrays as Base64 of gzip: letters that mean nothing in HTML.

    Within are the length of the JSON text (4 bytes, the lowest first), the text with `meta` and
    [name, "f" or "u", length] of each array, then each array as float32 or uint32: all lowest
    bytes, then all second ones, and so on, for equal bytes beside one another pack well.

    Args:
        meta: whatever JSON can hold.
        arrays: floats, or integers of at least 0.
    """
    plain = {
        name: np.ascontiguousarray(values, "<f4" if values.dtype.kind == "f" else "<u4").ravel()
        for name, values in arrays.items()
    }
    named = [[name, values.dtype.kind, values.size] for name, values in plain.items()]
    text = json.dumps({"meta": meta, "arrays": named}, allow_nan=False).encode()
    planes = [values.reshape(-1, 1).view(np.uint8).T.tobytes() for values in plain.values()]
    whole = b"".join([len(text).to_bytes(4, "little"), text, *planes])
    return base64.b64encode(gzip.compress(whole, mtime=0)).decode()


def rounded(values: npt.ArrayLike) -> Reals:
    """Return floats rounded to 12 bits, by one part in 4,096 at most: the rest packs to nothing.

    >>> rounded([1 / 3, 1000.1]).tolist()
    [0.3333740234375, 1000.0]
    """
    bits = np.array(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x800)) & np.uint32(0xFFFFF000)).view(np.float32)
