"""The command `prsrank explore`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from prsrank.cli.inputs import ModelInputs, check_fit, curve_file
from prsrank.cli.options import Run, working
from prsrank.fit.manifest import judged_model
from prsrank.logs.features import covered_log, known_lists
from prsrank.logs.reading import read_click_log
from prsrank.ragged import list_of_row
from prsrank.rankers.base import Ranker, load_ranker
from prsrank.rankers.feature_order import features_for
from prsrank.report.explorer import PageTexts, explorer_html, write_explorer
from prsrank.report.explorer_data import Explored, explore_log, text_columns
from prsrank.types import IdArray

_MODEL = "model"
_OWN = (
    "The model learned from all these clicks, the other rankers from those of queries that are not "
    "held out."
)
_NONE: IdArray = np.zeros(0, np.int64)
_NEW = "The rankers learned from another log."


@dataclass(frozen=True)
class _Shown(ModelInputs):
    WITHOUT = ("column", "data", "memory")  # they are those of the fit


def explore(
    run: Run,
    inputs: _Shown,
    out: Path,
    show: str | None = None,
    queries: Annotated[int, typer.Option(min=1, max=1000000)] = 1000,
) -> None:
    r"""Write a page to look at queries: the logged order beside that of each ranker, and why.

    One HTML file that needs no server and loads nothing. Queries are searched, and sorted by
    estimated gain, loss, traffic or uncertainty; for each the docs in the logged order and in
    that of the model or of another ranker of the fit, with impressions, clicks and P(click once
    seen), and for two docs which features put one above the other. A view can be sent: it is in
    the address.

    Args:
        out (FILE): Where to write the page: .html.
        show (A,B,...): Columns of the table of features or of the log to show as text, such as
            title,url.
        queries: Queries at most: of a larger log those worth a look, and some at random.

    \b
    Examples:
      prsrank explore fitted --out explore.html
      prsrank explore fitted --show title,url --queries 300 --out explore.html
      prsrank explore fitted --log new.parquet --out explore.html
    """
    check_fit(run)
    source, own = inputs.beside(run), curve_file(run)
    rankers, titles = _rankers(Path(run))
    clicks, lists = source.read()
    clicks = covered_log(clicks, lists)
    lists = features_for(next(iter(rankers.values())), known_lists(clicks, lists))
    estimate = source.curve_of(clicks, own)
    with working("exploring"):
        explored = explore_log(clicks, lists, estimate.curve, rankers, queries=queries)
        texts = PageTexts(
            source=Path(source.path).name,
            curve=estimate.how if own is None else "those of the fit",
            note=_OWN if inputs.log is None else _NEW,
            titles=titles,
            columns=_columns(source, explored, show),
            held_out=_held_out(Path(run)) if inputs.log is None else _NONE,
        )
        page = explorer_html(explored, lists, rankers, texts)
    write_explorer(page, out)
    size = len(page.encode()) / 1e6
    typer.echo(f"{out}: {len(explored.query_ids):,} of {explored.queries:,} queries, {size:.1f} MB")


def _rankers(run: Path) -> tuple[dict[str, Ranker], dict[str, str]]:
    """Return the rankers of a fit and their titles: what it ships first, then the judged ones."""
    chosen = judged_model(run).name
    names = sorted((run / "judged").iterdir(), key=lambda path: (path.name != chosen, path.name))
    rankers = {path.name: load_ranker(path) for path in names}
    if not (run / _MODEL).is_dir():  # the log was too thin
        return rankers, {}
    return (
        {_MODEL: load_ranker(run / _MODEL), **rankers},
        {_MODEL: f"the model ({chosen}, all sessions)"},
    )


def _columns(inputs: Any, explored: Explored, show: str | None) -> dict[str, list[str]]:
    names = [name.strip() for name in (show or "").split(",") if name.strip()]
    if not names:
        return {}
    files = [file for file in (inputs.table, inputs.path) if file is not None]
    query_ids = explored.query_ids[list_of_row(explored.offsets)]
    return text_columns(names, files, query_ids, explored.doc_ids, mapping=inputs.meaning())


def _held_out(run: Path) -> IdArray:
    """Return the queries that the judged rankers did not learn from."""
    log = run / "held_out" / "log.parquet"
    return read_click_log(log).query_ids if log.is_file() else _NONE
