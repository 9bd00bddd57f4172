"""Text in blocks of whole lines, packed or not."""

import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prsrank.errors import InputError

_BLOCK = 1 << 19
_MOST_LINE = 32 << 20


def blocks_of_lines(path: Path) -> Iterator[bytes]:
    """Yield a file's text in blocks of whole lines; an endless line is an InputError."""
    rest = b""
    opened = _UNPACKERS.get(path.suffix, open)
    try:
        with opened(path, "rb") as stream:
            while piece := stream.read(_BLOCK):
                cut = piece.rfind(b"\n") + 1
                if cut:
                    yield rest + piece[:cut]
                    rest = b""
                rest += piece[cut:]
                if len(rest) > _MOST_LINE:
                    raise InputError(f"{path}: a line has more than {_MOST_LINE >> 20} MiB")
    except (EOFError, OSError, lzma.LZMAError) as error:
        raise InputError(f"{path}: cannot be unpacked, damaged or cut short: {error}") from error
    if rest:
        yield rest


def _unpacked(path: Path, mode: str) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(path), compression="detect")


_UNPACKERS: dict[str, Callable[[Path, str], Any]] = {
    ".gz": _unpacked,
    ".xz": lzma.open,
    ".zst": _unpacked,
}
