"""The explorer: one web page in which queries are looked at, one by one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import indices_of, texts_of
from prsrank.files import FileName, atomic_output
from prsrank.report.explorer_blocks import packed, rounded
from prsrank.report.explorer_columns import split_columns
from prsrank.report.explorer_contributions import contributions, most_used
from prsrank.report.explorer_data import PICKED, Explored
from prsrank.report.html import asset, script_hash, template
from prsrank.types import IdArray

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
    main = packed(_meta(explored, texts), _arrays(explored))
    empty = _page(main, [])
    left = largest - len(empty.encode())
    blocks = []
    for index, name in enumerate(explored.rankers):
        features = lists.features[explored.rows]
        block = _contributions(rankers[name], features, lists.feature_names, left)
        if block is not None:
            blocks.append((f"contributions-{index}", block))
            left -= len(block) + 100  # and the element around it
    return _page(main, blocks)


def _page(main: str, blocks: Sequence[tuple[str, str]]) -> str:
    from markupsafe import Markup

    script = "\n".join(asset(name) for name in _SCRIPTS)
    page: str = template("explorer.html.j2").render(
        blocks=[("explored", main), *blocks],
        css=Markup(asset("report.css") + asset("explorer.css")),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704 - our own file
        hash=script_hash(script),
    )
    return page


def _meta(explored: Explored, texts: PageTexts) -> dict[str, Any]:
    of_queries, of_docs = split_columns(
        {name: list(values) for name, values in texts.columns.items()}, explored.offsets.tolist()
    )
    picked = (
        None if explored.picked is None else np.bincount(explored.picked, minlength=len(PICKED))
    )
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
        "picked": None if picked is None else picked.tolist(),
        "anyHeldOut": bool(len(texts.held_out)),
        "heldOut": _among(explored.query_ids, texts.held_out),
    }


def _among(query_ids: IdArray, held_out: IdArray) -> list[int]:
    return np.flatnonzero(indices_of(query_ids, held_out) >= 0).tolist()


def _arrays(explored: Explored) -> dict[str, Any]:
    seen, unpicked = explored.evidence, np.zeros(0, np.int64)
    return {
        "offsets": explored.offsets,
        "sessions": explored.sessions.round().astype(np.int64),
        "picked": unpicked if explored.picked is None else explored.picked,
        "gain": explored.gain,
        "deviation": rounded(explored.deviation),
        "impressions": seen.impressions.round().astype(np.int64),
        "clicks": seen.clicks.round().astype(np.int64),
        "position": rounded(seen.position),
        "propensity": rounded(seen.propensity),
        "theta": rounded(seen.theta),
        "low": rounded(seen.low),
        "high": rounded(seen.high),
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
