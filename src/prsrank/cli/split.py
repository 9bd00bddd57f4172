"""The command `prsrank split`."""

from collections.abc import Iterator
from pathlib import Path

from prsrank.cli.inputs import PlainLog
from prsrank.cli.options import Json, Seed, refuse_other_files, show, working
from prsrank.files import atomic_output
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_files import write_events
from prsrank.logs.held_out import HeldOut, hold_out
from prsrank.logs.split import parse_hold_out

_PARTS = ("training", "held_out")


def split(
    log: PlainLog,
    out: Path,
    holdout: str = "query:0.2",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    r"""Split a click log into a part to train on and a part to judge by; no query is in both.

    With time:SHARE, queries with sessions before and after the cut lose the earlier ones. The
    parts have prsrank's own columns, contexts and weights included, and no columns of
    features: for a log that holds its features, 'prsrank fit' splits by itself.

    Args:
        out (DIR): Folder to write the two parts to.
        holdout (HOW): What to hold out: query:SHARE of the queries, or time:SHARE of the latest
            sessions.

    \b
    Example:
      prsrank split log.parquet --holdout time:0.2 --out parts
      prsrank train parts/training.parquet --data DATA --propensity p.json --out model
      prsrank evaluate model --data DATA --log parts/held_out.parquet --propensity p.json
    """
    by, share = parse_hold_out(holdout)
    refuse_other_files(out, *(f"{part}.parquet" for part in _PARTS))
    parts = hold_out(log.clicks(), by=by, share=share, seed=seed)
    with working(f"writing {out}"), atomic_output(out, folder=True) as draft:
        for part in _PARTS:
            write_events(getattr(parts, part), draft / f"{part}.parquet")
    counts = {}
    for part in _PARTS:
        held: ClickLog = getattr(parts, part)
        sizes = {"sessions": held.sessions, "queries": held.queries, "clicks": len(held.clicks)}
        counts[part] = sizes
    value = {**counts, "dropped_sessions": parts.dropped_sessions, "folder": str(out)}
    show(_lines(out, parts, counts), value, json=json)


def _lines(out: Path, parts: HeldOut, counts: dict[str, dict[str, int]]) -> Iterator[str]:
    for part, count in counts.items():
        yield (
            f"{out / part}.parquet: {part.replace('_', ' ')}, {count['sessions']:,} sessions of "
            f"{count['queries']:,} queries, {count['clicks']:,} clicks"
        )
    if parts.dropped_sessions:
        yield (
            f"left out: {parts.dropped_sessions:,} sessions of {parts.shared_queries:,} queries "
            "on both sides of the cut"
        )
