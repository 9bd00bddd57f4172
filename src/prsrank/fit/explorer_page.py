"""The page of a fit on which held-out queries are looked at."""

from typing import TYPE_CHECKING

from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log import ClickLog
from prsrank.logs.coverage import known_lists
from prsrank.report.explorer import PageTexts, explorer_html
from prsrank.report.explorer_data import explore_log

if TYPE_CHECKING:
    from prsrank.fit.steps import FitResult

EXPLORER = "explore.html"
MOST_DOCS = 200_000
"""Of a held-out part with more docs, some queries, by a hash of their ids, are looked at."""

_QUERIES = 300
_NOTE = "No ranker on this page learned from these clicks: the queries are held out."


def explorer_page(result: "FitResult") -> str | None:
    """Return the page of the judged rankers, the chosen one first; None if the log is elsewhere."""
    held = result.parts.held_out.in_memory()
    if held is None:
        return None
    log, lists = _sample(*held, seed=result.plan.seed)
    names = sorted(result.tuned, key=lambda name: name != result.choice.name)
    rankers = {name: result.tuned[name].ranker for name in names}
    curve, seed = result.propensities.curve, result.plan.seed
    like = result.parts.train.posterior
    explored = explore_log(log, lists, curve, rankers, queries=_QUERIES, seed=seed, like=like)
    chosen = {result.choice.name: f"{result.choice.name} (chosen)"}
    source = f"{result.plan.log}, held-out part"
    texts = PageTexts(source=source, curve=result.propensities.how, note=_NOTE, titles=chosen)
    return explorer_html(explored, lists, rankers, texts)


def _sample(log: ClickLog, lists: RankingDataset, *, seed: int) -> tuple[ClickLog, RankingDataset]:
    """Return the sessions of some queries, so that looking at them takes seconds."""
    share = MOST_DOCS / max(lists.docs, 1)
    if share >= 1:
        return log, lists
    some, _ = log.split_by_query(share, seed=seed)
    return some, known_lists(some, lists)
