"""Judgements as files that other tools read."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

from prsrank.data.ids import objects
from prsrank.errors import InputError
from prsrank.evaluation.judgements import Judgements
from prsrank.files import FileName, atomic_output


def write_judgements(judged: Judgements, path: FileName, to: str) -> None:
    """Write judgements in a format of JUDGEMENT_FORMATS, whole or not at all."""
    with atomic_output(path) as draft:
        JUDGEMENT_FORMATS[to](judged, draft)


def _rows(judged: Judgements) -> list[tuple[str, str, int]]:
    ids = (map(str, values.tolist()) for values in (judged.query_ids, judged.doc_ids))
    return list(zip(*ids, judged.rating.tolist(), strict=True))


def _quepid(judged: Judgements, path: Path) -> None:
    """Quepid's ratings: query, docid, rating."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["query", "docid", "rating"])
        writer.writerows(_rows(judged))


def _trec(judged: Judgements, path: Path) -> None:
    """TREC's qrels: query, 0, doc, rating, between blanks."""
    with path.open("w", encoding="utf-8") as stream:
        for query, doc, rating in _rows(judged):
            if len(query.split()) != 1 or len(doc.split()) != 1:
                raise InputError(f"qrels have no place for blanks in ids, as in {query!r}, {doc!r}")
            stream.write(f"{query} 0 {doc} {rating}\n")


def _opensearch(judged: Judgements, path: Path) -> None:
    """The body of OpenSearch's PUT _plugins/_search_relevance/judgments."""
    ratings: dict[str, list[dict[str, str]]] = {}
    for query, doc, rating in _rows(judged):
        ratings.setdefault(query, []).append({"docId": doc, "rating": f"{rating:.1f}"})
    body = {
        "name": "prsrank judgements",
        "description": "P(click once seen) by grades from "
        + ", ".join(f"{one:.3g}" for one in judged.thresholds),
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": [{"query": q, "ratings": found} for q, found in ratings.items()],
    }
    path.write_text(json.dumps(body, ensure_ascii=False, indent=1), encoding="utf-8")


def _parquet(judged: Judgements, path: Path) -> None:
    """Parquet with all columns."""
    import duckdb

    with duckdb.connect() as connection:
        columns = {name: objects(array) for name, array in judged.columns().items()}
        connection.register("columns", columns)
        connection.sql("SELECT * FROM columns").write_parquet(str(path))


JUDGEMENT_FORMATS: dict[str, Callable[[Judgements, Path], None]] = {
    "parquet": _parquet,
    "quepid": _quepid,
    "opensearch": _opensearch,
    "trec": _trec,
}
"""How judgements are written, by name."""
