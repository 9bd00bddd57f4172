"""The command `prsrank convert`."""

from pathlib import Path

import typer

from prsrank.cli.inputs import opened_data
from prsrank.cli.options import Data, working
from prsrank.data.storage import write_stored


def convert(
    data: Data,
    *,
    relevant_from: float | None = None,
    out: Path,
) -> None:
    r"""Write a copy of a data set that opens at once, whatever its size.

    The copy holds all lists once and the splits of every fold, in the open safetensors
    layout, and serves wherever DATA is asked for. It knows which labels count as relevant.

    Args:
        relevant_from (N): The least label that counts as relevant.
        out (FILE): Where to write the converted copy.

    \b
    Examples:
      prsrank convert MSLR-WEB10K --out web10k.safetensors
      prsrank convert judged.txt --relevant-from 2 --out judged.safetensors
    """
    collection, _ = opened_data(data, relevant_from)
    with working(f"writing {out}"):
        stored = collection.stored()
        write_stored(stored, out)
    typer.echo(
        f"{out}: {stored.dataset.lists:,} lists, {stored.dataset.docs:,} docs, "
        f"{out.stat().st_size / 1e6:,.1f} MB"
    )
