"""Checks of features for what only this log's clicks and positions can have told them."""

from collections.abc import Callable, Iterator
from typing import Any

from prsrank.audit.checks_features import listed, numeric_features
from prsrank.audit.doc_sample import DocSample, FeatureValues, sample_docs
from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding
from prsrank.audit.leaks import (
    click_rate_ratio,
    click_within_docs,
    is_click_of_docs_shown_once,
    only_clicked_have_it,
    position_correlation,
)


def check_leaks(tables: EventTables) -> Iterator[Finding]:
    """Find features among the log's columns that know its clicks or positions."""
    yield from leaks_of(tables, tables)


def leaks_of(log: EventTables, features: EventTables) -> Iterator[Finding]:
    """Find features, of the log or of a table beside it, that know its clicks or positions.

    A feature is named once, by the first sign that it gives.
    """
    names = numeric_features(features)
    if not names or not log.totals().clicks:
        return
    sample = sample_docs(log, features, names)
    found: dict[str, dict[str, str]] = {code: {} for code in _SIGNS}
    for name, values in sample.features.items():
        signs = ((code, sign(sample, values)) for code, (_, sign) in _SIGNS.items())
        code, about = next(((code, about) for code, about in signs if about), ("", ""))
        if code:
            found[code][name] = about
    for code, (what, _) in _SIGNS.items():
        yield from listed(features, code, what, found[code])


def _click_rate(sample: DocSample, values: FeatureValues) -> str:
    chance = click_rate_ratio(sample, values)
    if chance.leaks:
        return f"docs with nearly equal values differ by {chance.ratio:.2f} of what chance gives"
    return _words("correlation", is_click_of_docs_shown_once(sample, values))


def _only_clicked(sample: DocSample, values: FeatureValues) -> str:
    docs = only_clicked_have_it(sample, values)
    return f"{docs:,} docs, all clicked" if docs else ""


def _after_click(sample: DocSample, values: FeatureValues) -> str:
    return _words("correlation", click_within_docs(sample, values))


def _position(sample: DocSample, values: FeatureValues) -> str:
    return _words("rank correlation", position_correlation(sample, values))


def _words(what: str, found: float) -> str:
    return f"{what} {found:.2f}" if found else ""


_SIGNS: dict[str, tuple[str, Callable[[DocSample, FeatureValues], Any]]] = {
    "feature-after-click": ("change with the click between rows of the same doc", _after_click),
    "feature-click-rate": ("hold this log's own clicks per (query, doc)", _click_rate),
    "feature-only-clicked": ("have a value for clicked docs only", _only_clicked),
    "feature-is-doc-position": ("are the docs' positions in this log in disguise", _position),
}
