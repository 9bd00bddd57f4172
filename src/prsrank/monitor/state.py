"""The state file: what the log of the fit looked like, and every window seen so far."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from prsrank.errors import InputError
from prsrank.files import FileName, read_json, write_json
from prsrank.files.schema import check
from prsrank.monitor.ratios import Depths
from prsrank.monitor.summary import Reference
from prsrank.monitor.verdict import Window

FORMAT = "prsrank monitor 2"
_EARLIER = "prsrank monitor 1"


@dataclass(frozen=True)
class State:
    """All that a monitor keeps.

    Attributes:
        format: of the file.
        model: checksum of the model that is watched.
        reference: what it was trained on.
        windows: in the order in which they came.
    """

    format: str
    model: str
    reference: Reference
    windows: list[Window]

    def seen(self, window: Window) -> "State":
        """Return the state with one more window; one of the same name is replaced."""
        kept = replace(window, summary=replace(window.summary, features={}, orders={}, before=None))
        number = self.number(window.summary.name)
        windows = [*self.windows[: number - 1], kept, *self.windows[number:]]
        # the last is added to the next; the one before to the last, should that come again
        past = [replace(w, summary=replace(w.summary, depths=None)) for w in windows[:-2]]
        return replace(self, windows=[*past, *windows[-2:]])

    def before(self, name: str) -> Depths | None:
        """Return the clicks of the window before one, where they are kept."""
        number = self.number(name)
        return self.windows[number - 2].summary.depths if number > 1 else None

    def number(self, name: str) -> int:
        """Return the number, from 1, of a window: that which it has, or the next."""
        names = [window.summary.name for window in self.windows]
        return names.index(name) + 1 if name in names else len(names) + 1

    def write(self, path: FileName) -> None:
        """Write the state, whole or not at all."""
        write_json(path, asdict(self))


def state_of(run: FileName) -> Path:
    """Return where the state of a fit is kept by default: beside its folder, which stays as it is.

    >>> state_of("runs/fitted/").as_posix()
    'runs/fitted.monitor.json'
    """
    folder = Path(run) if Path(run).name else Path(run).resolve()
    return folder.with_name(f"{folder.name}.monitor.json")


def read_state(path: FileName, model: str) -> State | None:
    """Read a state file; None where there is none yet.

    Raises:
        InputError: one line: it is no state file, or that of another model.
    """
    if not Path(path).exists():
        return None
    value = read_json(path)
    if value.get("format") == _EARLIER:
        raise InputError(f"{path}: was written by an earlier version: remove it to begin anew")
    if value.get("format") != FORMAT:
        raise InputError(f"{path}: is not the state of a monitor (format '{FORMAT}')")
    check(value, State, str(path))
    state: State = _built(State, value)
    if state.model != model:
        raise InputError(
            f"{path}: is the state of another model: give a new --state, or remove it to begin anew"
        )
    _check_bins(state.reference, path)
    return state


def _check_bins(reference: Reference, path: FileName) -> None:
    """Refuse a reference whose features do not belong together: their shares are paired by index."""
    for name, ends in reference.edges.items():
        shares = reference.summary.features.get(name, [])
        if len(shares) != len(ends) + 1 or name not in reference.importance:
            raise InputError(f"{path}: reference: feature '{name}' is not whole")
        if sorted(ends) != ends:
            raise InputError(f"{path}: reference: the edges of feature '{name}' do not rise")


def _built(kind: Any, value: Any) -> Any:
    """Make what `dataclasses.asdict` took apart, of values that were checked."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if value is not None and origin in (Union, UnionType):
        return _built(next(part for part in inner if part is not type(None)), value)
    if is_dataclass(origin):
        hints = get_type_hints(origin)
        return kind(**{f.name: _built(hints[f.name], value[f.name]) for f in fields(kind)})
    if isinstance(value, Mapping):
        return {name: _built(inner[1], part) for name, part in value.items()}
    return [_built(inner[0], part) for part in value] if isinstance(value, list) else value
