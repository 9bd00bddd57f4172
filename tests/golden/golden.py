"""Fit stored logs and compare what comes out with what is recorded: `make golden`.

Eight logs, each with LambdaMART and with the linear ranker. Of each fit there is a hash of the
parts, the curve, the models, the evaluation and the verdict. A change that is meant to leave
results alone leaves all of them the same; where one differs, NDCG on the labels, which no fit has
seen, says what the change is worth. `--record` writes the hashes anew.

The logs are stored, not simulated, so that a new simulator changes nothing here. Hashes are of
exact numbers: another processor may round otherwise, so they are compared on one machine.
"""

import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from prsrank import fit_log, load_ranker
from prsrank.logs import stored_pieces
from prsrank.logs.mapping import LogMapping
from prsrank.metrics.ranking import average, metric

HERE = Path(__file__).parent
LOGS, RECORD = HERE / "logs", HERE / "golden.json"
RANKERS = ("lambdamart", "linear")
FEATURES = str(LOGS / "features.parquet")
BY_SESSION = {
    "mapping": LogMapping(features=("f*", "price"), lists="session"),
    "propensity": "power:1",
}
SETTINGS: dict[str, dict[str, Any]] = {
    "position_based": {"features": FEATURES},
    "trust": {"features": FEATURES},
    "cascade": {"features": FEATURES},
    "randomised": {"features": FEATURES},
    "contexts": {"features": FEATURES, "mapping": LogMapping(contexts=("device",))},
    "by_session": BY_SESSION,
    "ubi": {"features": FEATURES},
    "in_pieces": {"features": FEATURES, "memory": "1GB"},
}


def fitted(name: str, ranker: str, folder: Path) -> dict[str, Any]:
    """Fit one log; return hashes and numbers of what came out."""
    stored_pieces.BYTES_PER_EVENT = 100_000 if name == "in_pieces" else 90
    log = LOGS / name if name == "ubi" else LOGS / f"{name}.parquet"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fit_log(
            log, out=folder, ranker=ranker, trials=2, trees=20, force=True, **SETTINGS[name]
        )
    pieces = list(result.parts.train.pieces)
    if (len(pieces) > 1) != (name == "in_pieces"):
        raise SystemExit(f"{name}: is read in {len(pieces)} pieces")
    chosen = json.loads((folder / "manifest.json").read_text())["chosen"]
    model = folder / "judged" / result.choice.name
    return {
        "parts": _hash([chosen["parts"], _sessions(result.parts)]),
        "curve": _hash((folder / "propensity.json").read_text()),
        "model": _hash(dict(_states(folder))),
        "evaluation": _hash((folder / "evaluation.json").read_text()),
        "verdict": _hash({key: value for key, value in chosen.items() if key not in _SAID}),
        "shipped": result.choice.name,
        "propensities": [round(p, 4) for p in json.loads((folder / "propensity.json").read_text())["propensity"]],
        "ndcg@10": round(_ndcg(model, "price" if name == "by_session" else ""), 4),
    }  # fmt: skip


def _sessions(parts: Any) -> dict[str, list[str]]:
    """Return the ids of the sessions of each part, in an order of their own."""
    return {
        part: sorted(
            f"{log.query_ids[query]} {session}"
            for log in getattr(parts, part).pieces
            for query, session in zip(
                log.ranking_query[log.session_ranking], log.session_ids, strict=True
            )
        )
        for part in ("train", "validation", "held_out")
    }


def _states(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield what the models of a fit have learned, without what is said about them."""
    for card in sorted(folder.glob("**/ranker.json")):
        about = json.loads(card.read_text())
        yield str(card.relative_to(folder)), {k: about[k] for k in about if k in _LEARNED}
        for file in sorted(card.parent.iterdir()):
            if file != card:
                yield str(file.relative_to(folder)), file.read_text()


_SAID = ("parts", "next")
_LEARNED = ("ranker", "parameters", "learned")


def _ndcg(model: Path, constant: str) -> float:
    """Return NDCG@10 of a model on the labels of all lists, those that it learned from too."""
    shown, labels = duckdb.read_parquet(FEATURES), duckdb.read_parquet(f"{LOGS}/labels.parquet")
    rows = shown.join(labels, "query_id, doc_id").order("query_id, doc_id").fetchnumpy()
    names = [name for name in rows if name.startswith("f")]
    columns = [rows[name] for name in names] + [np.zeros(len(rows["label"]))] * bool(constant)
    offsets = np.append(0, np.flatnonzero(np.diff(rows["query_id"])) + 1)
    scores = load_ranker(model).score(np.column_stack(columns).astype(np.float32))
    offsets = np.append(offsets, len(scores))
    return average(metric("ndcg@10")(rows["label"].astype(float), scores, offsets)).mean


def _hash(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main(arguments: list[str]) -> int:
    """Compare, or with --record write, the hashes; return an exit code."""
    names = [name for name in SETTINGS if name in arguments] or list(SETTINGS)
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    differences = 0
    for name in names:
        for ranker in RANKERS:
            case = f"{name} {ranker}"
            with tempfile.TemporaryDirectory() as folder:
                now = fitted(name, ranker, Path(folder, "fit"))
            before = recorded.get(case, {})
            differing = [key for key in now if now[key] != before.get(key)]
            differences += bool(differing)
            said = ", ".join(f"{key} ({before.get(key)} -> {now[key]})" for key in differing)
            print(f"{case}: {said or 'the same'}; ndcg@10 {now['ndcg@10']}", flush=True)
            recorded[case] = now
    if "--record" in arguments:
        RECORD.write_text(json.dumps(recorded, indent=1) + "\n")
        return 0
    print(f"{differences} of {len(names) * len(RANKERS)} fits differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
