"""Every kind of finding: how bad it is and what to do about it."""

from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Kind(NamedTuple):
    """How bad findings of a kind are, and what to do about them."""

    severity: Severity
    fix: str


_LOG_BOTH = "log one row per shown doc, clicked or not"
_ONE_ROW = "keep one row per (query, session, doc)"
_FIRST = "'duplicates = \"first\"' in the mapping does it"
_AFTER_CLICK = "leave the feature out: it is known only after the click"
_HOLDS_POSITION = "leave the feature out: it holds the position"
_NO_READERS = "leave these clients out: they are no readers"

_FIXES: dict[Severity, dict[str, str]] = {
    "error": {
        "empty-log": "check the path and the export that wrote it",
        "id-type": "write ids as integers or text",
        "id-missing": "drop these rows, or fill in the id",
        "position-type": "write positions as whole numbers",
        "position-missing": "log the position of every shown doc",
        "position-not-whole": "write positions as whole numbers",
        "position-below-one": "drop these rows, or number positions from 1",
        "position-too-large": "drop these rows: the number is no position",
        "positions-from-zero": "add 1 to every position, or set positions_from = 0 in a mapping",
        "position-base-mixed": "add 1 to the positions that count from 0",
        "click-type": "write clicks as 0 and 1, or booleans",
        "click-missing": "write 0 for a doc that was not clicked",
        "click-not-binary": "write 1 for a doc that was clicked, however often, else 0; "
        "[actions] click = 1 in a mapping does it",
        "click-without-impression": "log the list with its positions, or drop the rows",
        "clicked-rows-only": f"{_LOG_BOTH}; clicks alone teach nothing",
        "no-clicks": "check which column and which actions count as clicks",
        "no-pairs": _LOG_BOTH,
        "id-too-long": "number the ids, or take a hash of them",
        "duplicate-rows": f"{_ONE_ROW}; {_FIRST}",
        "impression-and-click-rows": f"{_ONE_ROW}, its click the largest of its rows; {_FIRST}",
        "duplicate-doc": f"{_ONE_ROW}: the first position at which it was shown; {_FIRST}",
        "duplicate-position": "number the positions of a list 1, 2, 3, ... throughout",
        "session-several-rankings": "give every shown list a session id of its own",
        "session-not-constant": "write one value per session",
        "randomised-type": "write booleans, or the names of designs",
        "randomised-unknown": "write 'uniform', 'top-k:K', 'swap:A:B' or ''",
        "weight-invalid": "give every click a weight above 0, or leave the column out",
        "propensity-invalid": "write propensities above 0, up to 1",
        "timestamp-invalid": "write times, or whole microseconds since 1970",
        "feature-not-numeric": "turn it into numbers, or leave it out",
        "feature-table-disagrees": "write one row per (query, doc) in the table",
        "feature-rows-missing": "add the docs to the table of features",
        "feature-click-rate": "leave the feature out, or make it from an earlier log",
        "feature-after-click": _AFTER_CLICK,
        "feature-only-clicked": _AFTER_CLICK,
    },
    "warning": {
        "no-propensities": "randomise a share of the sessions, or log a second ranker's",
        "randomised-not-random": "check what sets the mark; do not use the randomised or swap estimator",
        "ctr-rises": "check that position counts from the top of the page",
        "position-never-clicked": "check that clicks at these positions are logged",
        "few-clicks": "collect more sessions; expect wide intervals",
        "click-not-shown": "log an impression for every shown doc",
        "event-without-query": "keep queries and events of the same time",
        "query-without-list": "log the docs that the query returned",
        "query-repeated": "log every query_id once",
        "positions-disagree": "check what the ordinals of the events count",
        "every-doc-clicked": "leave these sessions out if robots made them",
        "client-clicks-everything": _NO_READERS,
        "client-too-fast": _NO_READERS,
        "client-heavy": "check that these clients are readers, not monitors",
        "gap-inconsistent": "log every shown doc, those without a click too",
        "lists-begin-late": "log the first page too, or count positions over all pages",
        "single-doc-lists": _LOG_BOTH,
        "feature-leak": _AFTER_CLICK,
        "feature-is-position": _HOLDS_POSITION,
        "feature-is-doc-position": _HOLDS_POSITION,
        "feature-infinite": "replace infinite values by a bound",
        "feature-missing": "fill in the feature, or leave it out",
        "feature-constant": "leave the feature out: it cannot tell docs apart",
        "feature-changes": "write 'lists = \"session\"' in the mapping, or take a snapshot of the features",
        "drift-clicks": "find what changed then; train on the time since",
        "drift-positions": "find what changed in the page; a curve for each period",
        "timestamp-suspect": "check the unit: microseconds since 1970",
        "ids-nearly-equal": "write ids in one spelling",
        "id-placeholder": "drop these rows, or fill in the id",
        "propensity-above-one": "check the logged propensities",
        "propensity-contradicted": "check how they were made; 'prsrank propensity' estimates a curve",
    },
    "note": {
        "drift-queries": "evaluate on the latest period",
        "position-bias": "nothing: 'prsrank propensity' judges a curve by it",
        "gap-consistent": "nothing, if another kind of result stands there",
        "clicks-weighted": "nothing, if the weights are meant; else rename the column, or map one action",
        "lists-without-clicks": "nothing: they count in click rates, but give no pairs",
        "repeated-lists": "nothing: equal lists are stored once",
        "session-id-shared": "nothing: a session is a pair (query_id, session_id)",
        "duplicates-left-out": "nothing, if the first position is the one that counts",
        "nulls-read": "nothing, if that is what they mean",
        "positions-rebased": "nothing",
        "position-base": "nothing",
    },
}
KINDS = {
    code: Kind(severity, fix) for severity, fixes in _FIXES.items() for code, fix in fixes.items()
}
"""The kinds of finding by code, errors first and the worst of each severity first.

An error is what `read_click_log` refuses or what leaves nothing to learn from; a warning
lets training go on with a reservation; a note is for information.
"""
