"""Files as they are: null words, decimal commas and docs shown twice are read on Spark as they are here."""

import numpy as np
import pandas
import pytest

from prsrank.logs.canonical import LEFT_OUT
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import open_events, read_log

pytestmark = pytest.mark.spark


def rows():
    """Events of 30 queries; the feature x is sometimes missing, and some sessions show a doc again."""
    rng = np.random.default_rng(4)
    for query in range(30):
        for session in range(4):
            again = [0] if session == 0 and query % 3 == 0 else []
            for k, doc in enumerate([*rng.permutation(5), *again]):
                x = None if (query + doc) % 4 == 0 else (query * 5 + doc) / 8 + 0.0625
                yield f"q{query}", session, f"d{doc}", k + 1, int(rng.random() < 0.6 / (k + 1)), x


@pytest.fixture
def written(tmp_path):
    def write(*, null, decimal, separator):
        lines = [separator.join(["query_id", "session_id", "doc_id", "position", "click", "x"])]
        for *row, x in rows():
            value = null if x is None else str(x).replace(".", decimal)
            lines.append(separator.join([*map(str, row), value]))
        file = tmp_path / "log.csv"
        file.write_text("\n".join(lines) + "\n")
        return file

    return write


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"null": "NULL", "decimal": ",", "separator": ";"}, {}),
        ({"null": "-999", "decimal": ".", "separator": ","}, {"nulls": ("-999",)}),
        ({"null": "none", "decimal": ",", "separator": "\t"}, {"nulls": ("none",), "decimal": ","}),
    ],
)
@pytest.mark.filterwarnings("ignore::prsrank.errors.DataWarning")
def test_words_commas_and_duplicates(spark, written, form, said):
    file = written(**form)
    mapping = LogMapping(features=("x",), duplicates="first", **said)
    log, lists = read_log(file, mapping=mapping)
    with spark.open_log(file, mapping=mapping) as source:
        findings = source.findings
        pieces = spark.load(source, mapping=mapping).sessions
        frames = pieces.total(lambda one: ((one.log.to_frame(), one.lists.to_frame()),))
    events, docs = (pandas.concat(some) for some in zip(*frames, strict=True))
    with open_events(file, mapping=mapping) as source:
        assert findings == source.findings
    assert findings[LEFT_OUT] == 10
    keys = ["query_id", "session_id", "doc_id", "position", "click"]
    expected = log.to_frame()[keys].astype({"click": int})
    assert set(events[keys].astype({"click": int}).itertuples(index=False, name=None)) == set(
        expected.itertuples(index=False, name=None)
    )
    x = docs.set_index(["query_id", "doc_id"])["x"]
    here = lists.to_frame().set_index(["query_id", "doc_id"])["x"]
    np.testing.assert_array_equal(x.reindex(here.index).to_numpy(np.float32), here)
