"""One call audits a log in any form, with features in any form."""

import pandas as pd
import pytest

import prsrank
from prsrank.errors import InputError

EVENTS = pd.DataFrame(
    {
        "query_id": ["a", "a", "b", "b"],
        "session_id": [1, 1, 2, 2],
        "doc_id": [5, 6, 5, 7],
        "position": [1, 2, 1, 2],
        "click": [0, 1, 1, 0],
    }
)


def test_a_frame_a_log_and_a_file_have_the_same_audit(tmp_path):
    file = tmp_path / "log.parquet"
    EVENTS.to_parquet(file)
    found = prsrank.audit_log(EVENTS)
    assert found.counts["sessions"] == 2
    assert prsrank.audit_log(str(file)).to_dict() == found.to_dict()
    assert prsrank.audit_log(prsrank.ClickLog.from_frame(EVENTS)).counts == found.counts


def test_features_may_be_a_frame():
    table = pd.DataFrame({"query_id": ["a", "a"], "doc_id": [5, 6], "x": [1.0, 2.0]})
    found = prsrank.audit_log(EVENTS, features=table)
    missing = [one for one in found.findings if one.code == "feature-rows-missing"]
    assert [(one.count, one.of) for one in missing] == [(2, 4)]


def test_a_missing_column_is_named_without_files_or_flags():
    with pytest.raises(InputError, match="no column 'click'") as caught:
        prsrank.audit_log(EVENTS.drop(columns="click"))
    assert "--" not in str(caught.value)
