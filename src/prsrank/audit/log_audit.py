"""The audit of a log in any form, in one call."""

import tempfile
from pathlib import Path
from typing import Any

from prsrank.audit import audit
from prsrank.audit.checks_curve import with_curve
from prsrank.audit.findings import Audit
from prsrank.logs.frame_files import is_in_memory, write_frame
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sources import open_events


def audit_log(
    log: object,
    *,
    mapping: LogMapping | None = None,
    features: Any = None,
    memory: str | None = None,
) -> Audit:
    """Look a click log over before any training: what it holds, what is wrong, what to do.

    Args:
        log: a frame (pandas, Polars, Arrow, DuckDB, a mapping of arrays), files, or a `ClickLog`;
            see `prsrank.logs.sources.open_events`.
        mapping: which column means what; default: the columns have prsrank's names.
        features: a table of features keyed by query and doc: a frame or files; default: the
            mapping's.
        memory: how much to hold while reading, such as "4GB".

    Returns:
        Counts, and findings with the worst first; `to_frame()` and `plot()` show them.

    Raises:
        InputError: one line that names a column that is not there, or what cannot be read.

    >>> import prsrank
    >>> found = prsrank.audit_log(
    ...     {"query_id": [1, 1], "session_id": [1, 1], "doc_id": [5, 6], "position": [0, 1],
    ...      "click": [0, 1]})
    >>> found.verdict, found.findings[0].code
    ('not usable', 'positions-from-zero')
    """
    mapping = mapping or LogMapping()
    with tempfile.TemporaryDirectory(prefix="prsrank-") as folder:
        if is_in_memory(features):
            features = write_frame(features, Path(folder, "features.parquet"))
        table = features if features is not None else mapping.feature_table
        with open_events(log, mapping=mapping, memory=memory) as source:
            found = audit(source, table=table, mapping=mapping)
            return with_curve(found, source, table=table, mapping=mapping)
