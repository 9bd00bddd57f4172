"""Every kind of finding: how bad it is and what to do about it."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Kind(NamedTuple):
    """How bad findings of a kind are, and what to do about them."""

    severity: Severity
    fix: str


_LOG_BOTH = "log one row per shown doc, clicked or not"
_LEAVE_OUT = "leave the feature out"
_ONE_ROW = "keep one row per (query, session, doc)"
_FIRST = "'--duplicates first' does it"

KINDS: dict[str, Kind] = {
    "empty-log": Kind("error", "check the path and the export that wrote it"),
    "id-type": Kind("error", "write ids as integers or text"),
    "id-missing": Kind("error", "drop these rows, or fill in the id"),
    "position-type": Kind("error", "write positions as whole numbers"),
    "position-missing": Kind("error", "log the position of every shown doc"),
    "position-not-whole": Kind("error", "write positions as whole numbers"),
    "position-below-one": Kind("error", "drop these rows, or number positions from 1"),
    "position-too-large": Kind("error", "drop these rows: the number is no position"),
    "positions-from-zero": Kind(
        "error", "add 1 to every position, or set positions_from = 0 in a mapping"
    ),
    "position-base-mixed": Kind("error", "add 1 to the positions that count from 0"),
    "click-type": Kind("error", "write clicks as 0 and 1, or booleans"),
    "click-missing": Kind("error", "write 0 for a doc that was not clicked"),
    "click-not-binary": Kind(
        "error",
        "write 1 for a doc that was clicked, however often, else 0; [actions] click = 1 in a mapping "
        "does it",
    ),
    "click-without-impression": Kind("error", "log the list with its positions, or drop the rows"),
    "clicked-rows-only": Kind("error", f"{_LOG_BOTH}; clicks alone teach nothing"),
    "no-clicks": Kind("error", "check which column and which actions count as clicks"),
    "no-pairs": Kind("error", _LOG_BOTH),
    "id-too-long": Kind("error", "number the ids, or take a hash of them"),
    "duplicate-rows": Kind("error", f"{_ONE_ROW}; {_FIRST}"),
    "impression-and-click-rows": Kind(
        "error", f"{_ONE_ROW}, its click the largest of its rows; {_FIRST}"
    ),
    "duplicate-doc": Kind(
        "error", f"{_ONE_ROW}: the first position at which it was shown; {_FIRST}"
    ),
    "duplicate-position": Kind("error", "number the positions of a list 1, 2, 3, ... throughout"),
    "session-several-rankings": Kind("error", "give every shown list a session id of its own"),
    "session-not-constant": Kind("error", "write one value per session"),
    "randomised-type": Kind("error", "write booleans, or the names of designs"),
    "randomised-unknown": Kind("error", "write 'uniform', 'top-k:K', 'swap:A:B' or ''"),
    "weight-invalid": Kind("error", "give every click a weight above 0, or leave the column out"),
    "propensity-invalid": Kind("error", "write propensities above 0, up to 1"),
    "timestamp-invalid": Kind("error", "write times, or whole microseconds since 1970"),
    "feature-not-numeric": Kind("error", "turn it into numbers, or leave it out"),
    "feature-table-disagrees": Kind("error", "write one row per (query, doc) in the table"),
    "feature-rows-missing": Kind("error", "add the docs to the table of features"),
    "feature-click-rate": Kind("error", f"{_LEAVE_OUT}, or make it from an earlier log"),
    "feature-after-click": Kind("error", f"{_LEAVE_OUT}: it is known only after the click"),
    "feature-only-clicked": Kind("error", f"{_LEAVE_OUT}: it is known only after the click"),
    "no-propensities": Kind(
        "warning", "randomise a share of the sessions, or log a second ranker's"
    ),
    "randomised-not-random": Kind(
        "warning", "check what sets the mark; do not use the randomised or swap estimator"
    ),
    "ctr-rises": Kind("warning", "check that position counts from the top of the page"),
    "position-never-clicked": Kind("warning", "check that clicks at these positions are logged"),
    "few-clicks": Kind("warning", "collect more sessions; expect wide intervals"),
    "click-not-shown": Kind("warning", "log an impression for every shown doc"),
    "event-without-query": Kind("warning", "keep queries and events of the same time"),
    "query-without-list": Kind("warning", "log the docs that the query returned"),
    "query-repeated": Kind("warning", "log every query_id once"),
    "positions-disagree": Kind("warning", "check what the ordinals of the events count"),
    "every-doc-clicked": Kind("warning", "leave these sessions out if robots made them"),
    "client-clicks-everything": Kind("warning", "leave these clients out: they are no readers"),
    "client-too-fast": Kind("warning", "leave these clients out: they are no readers"),
    "client-heavy": Kind("warning", "check that these clients are readers, not monitors"),
    "gap-inconsistent": Kind("warning", "log every shown doc, those without a click too"),
    "lists-begin-late": Kind(
        "warning", "log the first page too, or count positions over all pages"
    ),
    "single-doc-lists": Kind("warning", _LOG_BOTH),
    "feature-leak": Kind("warning", "leave the feature out: it is known only after the click"),
    "feature-is-position": Kind("warning", "leave the feature out: it holds the position"),
    "feature-is-doc-position": Kind("warning", "leave the feature out: it holds the position"),
    "feature-infinite": Kind("warning", "replace infinite values by a bound"),
    "feature-missing": Kind("warning", "fill in the feature, or leave it out"),
    "feature-constant": Kind("warning", "leave the feature out: it cannot tell docs apart"),
    "feature-changes": Kind("warning", "use '--lists session', or a snapshot of the features"),
    "drift-clicks": Kind("warning", "find what changed then; train on the time since"),
    "drift-positions": Kind("warning", "find what changed in the page; a curve for each period"),
    "drift-queries": Kind("note", "evaluate on the latest period"),
    "timestamp-suspect": Kind("warning", "check the unit: microseconds since 1970"),
    "ids-nearly-equal": Kind("warning", "write ids in one spelling"),
    "id-placeholder": Kind("warning", "drop these rows, or fill in the id"),
    "propensity-above-one": Kind("warning", "check the logged propensities"),
    "propensity-contradicted": Kind(
        "warning", "check how they were made; 'prsrank propensity' estimates a curve"
    ),
    "position-bias": Kind("note", "nothing: 'prsrank propensity' judges a curve by it"),
    "gap-consistent": Kind("note", "nothing, if another kind of result stands there"),
    "clicks-weighted": Kind(
        "note", "nothing, if the weights are meant; else rename the column, or map one action"
    ),
    "lists-without-clicks": Kind("note", "nothing: they count in click rates, but give no pairs"),
    "repeated-lists": Kind("note", "nothing: equal lists are stored once"),
    "session-id-shared": Kind("note", "nothing: a session is a pair (query_id, session_id)"),
    "duplicates-left-out": Kind("note", "nothing, if the first position is the one that counts"),
    "nulls-read": Kind("note", "nothing, if that is what they mean"),
    "positions-rebased": Kind("note", "nothing"),
    "position-base": Kind("note", "nothing"),
}
"""The kinds of finding by code, errors first and the worst of each severity first.

An error is what `read_click_log` refuses or what leaves nothing to learn from; a warning
lets training go on with a reservation; a note is for information.
"""

C = TypeVar("C", bound=Callable[..., Any])


def finds(kinds: Mapping[str, Kind]) -> Callable[[C], C]:
    """Mark a check with kinds of finding that only it has; in KINDS they come after the others."""

    def marked(check: C) -> C:
        KINDS.update(kinds)
        return check

    return marked
