"""The command `prsrank convert`."""

from pathlib import Path

import typer

from prsrank.cli.arguments import working
from prsrank.cli.option_groups import WholeData
from prsrank.data.storage import write_stored


def convert(
    data: WholeData,
    out: Path = typer.Option(..., metavar="FILE", help="Where to write the converted copy."),
) -> None:
    r"""Write a copy of a data set that opens at once, whatever its size.

    The copy holds all lists once and the splits of every fold, in the open safetensors
    layout, and serves wherever DATA is asked for.

    \b
    Example:
      prsrank convert MSLR-WEB10K --out web10k.safetensors
    """
    collection = data.collection()
    with working(f"writing {out}"):
        stored = collection.stored()
        write_stored(stored, out)
    typer.echo(
        f"{out}: {stored.dataset.lists:,} lists, {stored.dataset.docs:,} docs, "
        f"{out.stat().st_size / 1e6:,.1f} MB"
    )
