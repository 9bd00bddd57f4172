"""Packed text whose lines have no end is refused before it is unpacked."""

import gzip

import pytest

from prsrank.errors import InputError
from prsrank.logs.reading import open_events

HEAD = b"query_id,session_id,doc_id,position,click\n1,1,"


@pytest.mark.parametrize(
    ("name", "head", "megabytes", "message"),
    [
        ("log.csv.gz", HEAD, 5, "line size"),
        ("log.jsonl.gz", b'{"query_id": "', 40, "object_size"),
    ],
)
def test_a_line_without_end_is_refused(name, head, megabytes, message, tmp_path):
    file = tmp_path / name
    file.write_bytes(gzip.compress(head + b"a" * (megabytes << 20), 1))
    with pytest.raises(InputError, match=rf"{name}: .*{message}"), open_events(file):
        pass
