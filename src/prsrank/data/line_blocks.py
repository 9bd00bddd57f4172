"""Text in blocks of whole lines, packed or not."""

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from prsrank.errors import InputError
from prsrank.types import Bytes

_BLOCK = 8 << 20
_MOST_LINE = 32 << 20


def blocks_of_lines(path: Path) -> Iterator[Bytes]:
    """Yield a file's text in blocks of whole lines; an endless line is an InputError."""
    if path.suffix in _UNPACKERS:
        yield from _unpacked(path)
    elif path.stat().st_size:
        text = np.memmap(path, np.uint8, mode="r")
        start = 0
        while start < len(text):
            end = min(start + _BLOCK, len(text))
            while end < len(text) and text[end - 1] != ord("\n"):
                _check_line(path, end - start - _BLOCK)
                tail = bytes(text[end : end + 65536]).find(b"\n")
                end = end + tail + 1 if tail >= 0 else min(end + 65536, len(text))
            yield text[start:end]
            start = end


def _unpacked(path: Path) -> Iterator[Bytes]:
    rest = b""
    try:
        for piece in _UNPACKERS[path.suffix](path):
            cut = piece.rfind(b"\n") + 1
            if cut:
                yield np.frombuffer(rest + piece[:cut], np.uint8)
                rest = piece[cut:]
            else:
                rest += piece
                _check_line(path, len(rest))
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{path}: cannot be unpacked, damaged or cut short: {error}") from error
    if rest:
        yield np.frombuffer(rest, np.uint8)


def _check_line(path: Path, length: int) -> None:
    if length > _MOST_LINE:
        raise InputError(f"{path}: a line has more than {_MOST_LINE >> 20} MiB")


def _read_pieces(stream: BinaryIO | gzip.GzipFile | lzma.LZMAFile) -> Iterator[bytes]:
    with stream:
        while piece := stream.read(_BLOCK):
            yield piece


def _zst_pieces(path: Path) -> Iterator[bytes]:
    import zstandard

    decoder = None
    try:
        for packed in _read_pieces(path.open("rb")):
            for start in range(0, len(packed), 1 << 18):
                part = packed[start : start + (1 << 18)]
                while part:
                    decoder = decoder or zstandard.ZstdDecompressor().decompressobj()
                    yield decoder.decompress(part)
                    part = decoder.unused_data if decoder.eof else b""
                    decoder = None if decoder.eof else decoder
    except zstandard.ZstdError as error:
        raise EOFError(str(error)) from error
    if decoder is not None:
        raise EOFError("the last frame has no end")


_UNPACKERS: dict[str, Callable[[Path], Iterable[bytes]]] = {
    ".gz": lambda path: _read_pieces(gzip.GzipFile(path)),
    ".xz": lambda path: _read_pieces(lzma.LZMAFile(path)),  # noqa: SIM115 - closed in there
    ".zst": _zst_pieces,
}
