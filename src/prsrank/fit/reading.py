"""Reading what a fit needs, after an audit."""

import warnings
from dataclasses import dataclass

from prsrank.audit.findings import Audit
from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning, InputError
from prsrank.fit.plan import Plan
from prsrank.fit.tuning import Tell
from prsrank.logs.click_log import ClickLog
from prsrank.logs.coverage import covered_sessions, known_lists


@dataclass(frozen=True, eq=False)
class ReadLog:
    """A log that passed its audit, and its lists.

    Attributes:
        audit: of the log as it is in the files.
        log: the sessions all of whose docs have features.
        lists: the lists of their queries.
        left_out: number of other sessions.
    """

    audit: Audit
    log: ClickLog
    lists: RankingDataset
    left_out: int


def read_inputs(plan: Plan, tell: Tell) -> ReadLog:
    """Audit a log, then read it and the features of its docs.

    Raises:
        InputError: if the audit finds errors, naming the worst.
    """
    from prsrank.audit import audit
    from prsrank.audit.feature_table import with_feature_table
    from prsrank.logs.reading import log_and_lists
    from prsrank.logs.sources import open_events

    with open_events(plan.log, mapping=plan.mapping, memory=plan.memory) as source:
        tell(f"auditing {plan.log}")
        found = audit(source)
        if plan.table is not None:
            found = with_feature_table(found, source, plan.table, mapping=plan.mapping)
        _stop_on_errors(found, plan.log)
        tell(f"reading {plan.log}")
        log, lists = log_and_lists(
            source, mapping=plan.mapping, features=plan.table, lists=plan.lists
        )
    if plan.data is not None:
        lists = _lists_of_data(plan.data)
    if lists is None or not lists.feature_names:
        raise InputError(f"{plan.log}: no column is a feature")
    covered = covered_sessions(log, lists)
    if not covered.any():
        log.doc_rows(lists)  # names a query or doc that is missing
    left_out = int((~covered).sum())
    if left_out:
        warn(
            f"{left_out} of {log.sessions} sessions show docs that {plan.data} does not have: "
            "they are left out"
        )
        log = log.select(covered)
    return ReadLog(found, log, known_lists(log, lists), left_out)


def _lists_of_data(data: str) -> RankingDataset:
    from prsrank.data.collections import open_collection

    return open_collection(data).everything()


def _stop_on_errors(audit: Audit, log: str) -> None:
    if not audit.errors:
        return
    worst = audit.errors[0]
    where = f", such as {worst.where}" if worst.where else ""
    more = f" ({len(audit.errors)} errors in all)" if len(audit.errors) > 1 else ""
    raise InputError(
        f"{log}: not usable: {worst.code}: {worst.what}{where}{more}; "
        "'prsrank audit' says what to do"
    )


def warn(message: str) -> None:
    """Warn of a reservation about the input."""
    warnings.warn(DataWarning(message), stacklevel=3)
