"""Outputs that appear whole or not at all, whatever ends the process that writes them.

A draft grows in a folder beside its target, `.NAME.prsrank-XXXXXXXX`, on which its process holds
a lock. It is synced to the disk, then takes the target's name in one step. What a killed process
left behind is known by its lock being free, and is removed by the next that writes the target.

The temporary folders of a command lie in one of this process, which goes with it, however it ends:
`tempfile` removes its folders when Python ends, which a process that is ended at once never does.
"""

import ctypes
import fcntl
import glob
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from prsrank.errors import InputError

_MARK = ".prsrank-"
_PREFIX = "prsrank-run-"
_OLD = ".old"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

last_steps: list[Callable[[], object]] = []
"""What ends helpers of this process, such as Spark's Java, where it cannot wait for them."""

_roots: list[Path] = []

_open_drafts: "dict[Path, _Workspace]" = {}
# where this process may have made a folder that it had no time to note
_targets: set[Path] = set()
# held while a draft takes its name: `discard_drafts` must not remove what is being renamed
_replacing = threading.RLock()


@contextmanager
def atomic_output(path: str | os.PathLike[str], *, folder: bool = False) -> Iterator[Path]:
    """Give a temporary path beside `path`; it takes the name `path` if the block succeeds.

    Args:
        path: where the output is to appear. An existing file is replaced; an existing
            folder only by a folder. A link, a device or a pipe is refused.
        folder: make the temporary path a folder.

    Yields:
        The path to write to. After an error nothing is left of it and `path` is unchanged.
    """
    target = Path(path)
    check_target(target, folder=folder)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        recover(target)
        _targets.add(target)
        workspace = _Workspace.make(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from error
    try:
        if folder:
            workspace.draft.mkdir()
        yield workspace.draft
        with _replacing:
            workspace.finish(folder=folder)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from error
    except InputError as error:
        if str(workspace.draft) not in str(error):
            raise
        # the draft's own name means nothing to anybody
        raise InputError(str(error).replace(str(workspace.draft), str(target))) from error
    finally:
        workspace.discard()


def check_target(path: str | os.PathLike[str], *, folder: bool) -> None:
    """Raise an InputError if an output cannot take this name: what is there is something else."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if stat.S_ISLNK(mode):
        raise InputError(f"{path}: is a link, which is not followed: name what it points to")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{path}: is a device, pipe or socket, not a file")
    if stat.S_ISDIR(mode) != folder:
        raise InputError(f"{path}: exists and is {'not a' if folder else 'a'} folder")


def write_reason(error: Exception) -> str:
    """Return why a library could not write a file: the system's reason, if it names one."""
    code = re.search(r'"errno":"(\d+)"', str(error))
    said = str(error).strip().partition("\n")[0].removeprefix("IO Error: ")
    return os.strerror(int(code[1])) if code else said


def recover(target: Path) -> None:
    """Put back and clear away what killed processes left of drafts of this target."""
    for left, lock in _abandoned(target.parent, f".{glob.escape(target.name)}{_MARK}*"):
        _Workspace(left, target, lock).discard()


def discard_drafts() -> None:
    """Remove all drafts of this process, which is about to end: none can be finished any more."""
    _replacing.acquire(timeout=60)  # never given back
    for workspace in list(_open_drafts.values()):
        workspace.discard()
    # a signal may come between the making of a folder and its note, or in its removal
    for target in _targets:
        recover(target)


@dataclass(frozen=True)
class _Workspace:
    """The folder that a draft grows in, and the open file that locks it."""

    folder: Path
    target: Path
    lock: int | None

    @classmethod
    def make(cls, target: Path) -> "_Workspace":
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}{_MARK}", dir=target.parent))
        made = cls(folder, target, lock_folder(folder))
        _open_drafts[folder] = made
        return made

    @property
    def draft(self) -> Path:
        return self.folder / self.target.name

    @property
    def aside(self) -> Path:
        """Where an old folder lies while the new one takes its name, without an exchange."""
        return self.folder / f"{self.target.name}{_OLD}"

    def finish(self, *, folder: bool) -> None:
        """Give the draft its name, in one step, after its content is on the disk."""
        check_target(self.target, folder=folder)
        # inside another draft the outer one will do it, for all that is in it
        durable = not any(_MARK in part for part in self.target.parent.parts)
        if durable:
            _sync_tree(self.draft)
        if not (folder and self.target.exists()):
            os.replace(self.draft, self.target)
        elif not exchange(self.draft, self.target):
            self._replace_in_two()
        if durable:
            _sync(self.target.parent)

    def _replace_in_two(self) -> None:
        os.rename(self.target, self.aside)
        try:
            os.rename(self.draft, self.target)
        except BaseException:
            os.rename(self.aside, self.target)
            raise

    def discard(self) -> None:
        """Remove the folder, but never the only copy of what the target was."""
        if os.path.lexists(self.aside) and not os.path.lexists(self.target):
            with suppress(OSError):
                os.rename(self.aside, self.target)
        if not os.path.lexists(self.aside) or os.path.lexists(self.target):
            shutil.rmtree(self.folder, ignore_errors=True)
        _open_drafts.pop(self.folder, None)
        if self.lock is not None:
            with suppress(OSError):
                os.close(self.lock)


def exchange(first: Path, second: Path) -> bool:
    """Swap the names of two files or folders in one step; False where the system cannot."""
    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if swap is None:
        return False
    names = os.fsencode(first), os.fsencode(second)
    if swap(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code), str(second))


# what file systems and kernels without the exchange answer
_CANNOT = {22, 38, 95}  # EINVAL, ENOSYS, EOPNOTSUPP


def lock_folder(folder: Path) -> int | None:
    """Open and lock a folder; None if another process holds it, or locks are not to be had."""
    file = None
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if file is not None:
            os.close(file)
        return None
    return file


def _sync_tree(path: Path) -> None:
    for part in (*path.rglob("*"), path):
        _sync(part)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an InputError if nothing can be written at `path`; to be asked before long work.

    Folders that are not there yet are not made.
    """
    target = Path(path)
    beside = next(parent for parent in target.absolute().parents if parent.exists()) / target.name
    _targets.add(beside)
    recover(beside)
    try:
        # permission bits do not tell of read-only disks, and do not bind everybody; what a killed
        # process leaves of it goes with the drafts of this target
        prefix = f".{target.name}{_MARK}"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=beside.parent):
            pass
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from error


@contextmanager
def scratch_of_process() -> Iterator[Path]:
    """Let `tempfile` make its files and folders in one of this process, which is removed."""
    before = tempfile.gettempdir()
    _clear(Path(before))
    try:
        root = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError:  # whoever needs room says that there is none
        yield Path(before)
        return
    lock = lock_folder(root)
    _roots.append(root)
    tempfile.tempdir = str(root)
    try:
        yield root
    finally:
        tempfile.tempdir = before
        _roots.remove(root)
        shutil.rmtree(root, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def discard_scratch() -> None:
    """Remove the temporary files of this process, which is about to end."""
    for step in last_steps:
        with suppress(Exception):
            step()
    for root in _roots:
        shutil.rmtree(root, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Remove what killed processes left; what others' processes use, or own, stays."""
    for left, lock in _abandoned(folder, f"{_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
        os.close(lock)


def _abandoned(folder: Path, names: str) -> Iterator[tuple[Path, int]]:
    """Yield folders that no process holds, and the open files that lock them from now on."""
    for left in folder.glob(names):
        lock = lock_folder(left)
        if lock is not None:
            yield left, lock
