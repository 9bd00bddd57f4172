"""Load and score altered models, each in a process of its own; print how the processes ended.

Run by test_tree_text.py: `python fuzz_models.py MODEL_FOLDER CASES SEED`. The checksum is put
right after every change, so that only what reads the content can refuse it.
"""

import collections
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np

from prsrank.errors import InputError
from prsrank.rankers.base import load_ranker
from prsrank.rankers.cards import checksum

_NUMBERS = ("-1", "0", "1", "2147483647", "-2147483648", "4294967296", "1e308", "1e999", "-0", "")
_NUMBERS += ("nan", "inf", "-inf", "9" * 400, "0x10", "1.5", "99999", "7", "-3", "12", "３")


def altered(content: bytes, rng: random.Random) -> bytes:
    """Change a text or binary file in one of several ways."""
    return rng.choice(
        [_other_byte, _other_number, _other_number, _other_number, _cut, _lines, _token]
    )(content, rng)


def _other_byte(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 5, 50))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _other_number(content: bytes, rng: random.Random) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?(e[+-]?\d+)?", content))
    if not found:
        return _other_byte(content, rng)
    for one in sorted(
        rng.sample(found, min(len(found), rng.choice((1, 1, 1, 3)))), key=lambda m: -m.start()
    ):
        near = str(int(float(one[0])) + rng.choice((-1, 1))) if len(one[0]) < 15 else "5"
        new = rng.choice((*_NUMBERS, near, near, near)).encode()
        content = content[: one.start()] + new + content[one.end() :]
    return content


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.randrange(3)
    if how == 0:
        del lines[i]
    elif how == 1:
        lines.insert(i, lines[j])
    else:
        lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def _token(content: bytes, rng: random.Random) -> bytes:
    spaces = [m.start() for m in re.finditer(rb" ", content)] or [0]
    at = rng.choice(spaces)
    return (
        content[:at] + rng.choice((b" 1", b" -1", b" 0.5", b"", b"=", b"\0", b"\n")) + content[at:]
    )


def ending(folder: Path, columns: int) -> str:
    """Load and score in a child; return its exit code, or the signal that killed it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.alarm(20)
            rows = np.random.default_rng(0).normal(size=(50, columns)).astype(np.float32)
            scores = load_ranker(folder).score(rows)
            code = 0 if np.isfinite(scores).all() else 3
        except InputError as error:
            code = 2 if "\n" not in str(error) else 4
        except BaseException as error:
            print(repr(error)[:300], file=sys.stderr)
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return str(os.WEXITSTATUS(status)) if os.WIFEXITED(status) else f"signal {os.WTERMSIG(status)}"


def main(model: Path, cases: int, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    columns = len(load_ranker(model).feature_names_)
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        shutil.copytree(model, folder)
        card = json.loads((model / "ranker.json").read_text())
        names = sorted(card["files"])
        for case in range(cases):
            name = names[case % len(names)]
            content = altered((model / name).read_bytes(), rng)
            (folder / name).write_bytes(content)
            card["files"][name] = hashlib.sha256(content).hexdigest()
            (folder / "ranker.json").write_text(json.dumps(card | {"checksum": checksum(card)}))
            how = ending(folder, columns)
            counts[how] += 1
            keep = os.environ.get("KEEP")
            if how not in ("0", "2") and keep:
                shutil.copytree(folder, Path(keep) / f"{seed}-{case}-{how}", dirs_exist_ok=True)
            shutil.copyfile(model / name, folder / name)
            card["files"][name] = hashlib.sha256((model / name).read_bytes()).hexdigest()
    print(json.dumps(counts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
