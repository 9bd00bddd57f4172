"""Watch a model after its launch: new sessions beside those that it was trained on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from prsrank.errors import InputError
from prsrank.evaluation.results import LOGGED
from prsrank.files import FileName, plain_json, read_json, write_json
from prsrank.files.schema import check
from prsrank.fit.engine import LocalEngine
from prsrank.fit.log import PiecedLog
from prsrank.fit.manifest import is_fit, judged_model, read_manifest
from prsrank.fit.plan import METRIC, Plan
from prsrank.logs.mapping import LogMapping
from prsrank.logs.pieces import LocalSessions
from prsrank.logs.reading import frame_file, is_path, log_name
from prsrank.logs.split import RANDOMISED
from prsrank.monitor.checks import FINE, Window, judge
from prsrank.monitor.ratios import Depths
from prsrank.monitor.summary import Gain, Reference, Watched, measure, summarise
from prsrank.monitor.windows import check_every, cut, logs_of
from prsrank.notebook import Chart, Columns, Shown
from prsrank.propensity.curve import Propensities
from prsrank.rankers.base import load_ranker
from prsrank.rankers.cards import CARD
from prsrank.rankers.feature_order import features_for

FORMAT = "prsrank monitor 2"
_EARLIER = "prsrank monitor 1"
# figures of earlier versions
_NO_LONGER_KEPT = ("click_rates", "not_random", "heaviest", "drift")
_GRAVITY = (FINE, "look", "retrain")


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
    for figures in _figures(value):
        for name in _NO_LONGER_KEPT:
            figures.pop(name, None)
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


def _figures(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the windows in the text of a state and their statistics, whatever else is wrong."""
    windows = value.get("windows")
    for holder in [value.get("reference"), *(windows if isinstance(windows, list) else ())]:
        if isinstance(holder, dict):
            summary = holder.get("summary")
            yield from (part for part in (holder, summary) if isinstance(part, dict))


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


@dataclass(frozen=True, eq=False, repr=False)
class Monitoring(Shown):
    """What a monitor found.

    Attributes:
        run: folder of the fit.
        state: the reference and all windows seen.
        new: the windows of this call.
        path: the state file.
    """

    run: str
    state: State
    new: tuple[Window, ...]
    path: Path

    @property
    def verdict(self) -> str:
        """The gravest verdict of the new windows: "fine", "look" or "retrain"."""
        return max((window.verdict for window in self.new), key=_GRAVITY.index)

    def _line(self) -> str:
        alarms = [window.summary.name for window in self.new if window.verdict != FINE]
        return f"{self.verdict}; {len(self.new)} new windows{': ' if alarms else ''}{', '.join(alarms)}"

    def _table(self) -> Columns:
        rows = [_row(window) for window in self.state.windows]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _chart(self) -> Chart:
        rows = [row for row in map(_row, self.state.windows) if row["gain"] is not None]
        table = {name: [row[name] for row in rows] for name in ("window", "gain", "low", "high")}
        return Chart("intervals", table, "window", "gain", "low", "high", title=f"gain in {METRIC}")


def _row(window: Window) -> dict[str, Any]:
    """Return a window as one row of a table."""
    now, gain = window.summary, window.summary.gain
    return {
        "window": now.name,
        "verdict": window.verdict,
        "reasons": "; ".join(reason.check for reason in window.reasons),
        "sessions": now.sessions,
        "queries": now.queries,
        "clicks": now.clicks,
        "gain": None if gain is None else gain.difference,
        "low": None if gain is None else gain.low,
        "high": None if gain is None else gain.high,
        "power": None if now.power is None else now.power.value,
        "effective clicks": now.effective_clicks,
    }


def monitor_log(
    run: FileName,
    log: Any,
    *,
    every: str | int | None = None,
    state: FileName | None = None,
    data: str | None = None,
    features: Any = None,
    mapping: LogMapping | None = None,
    memory: str | None = None,
) -> Monitoring:
    """Compare new sessions with those that a model was trained on, window by window.

    The first call measures the log of the fit (the part held out, where that log is gone) and
    keeps it in the state file; later ones read the new log alone. Every window seen is added.

    Args:
        run: the folder that `prsrank.fit_log` wrote.
        log: the new sessions, as `prsrank.logs.reading.open_events` takes them.
        every: windows by "day", by "week", or of so many sessions; default: one window.
        state: the state file; default: RUN.monitor.json beside the folder of the fit.
        data: data set with the features of the docs; default: as in the fit, like
        features: table of features keyed by query and doc, files or a frame, and
        mapping: which column of the log means what.
        memory: how much to hold while reading, such as "4GB".

    Returns:
        The verdict "fine", "look" or "retrain", and for each window statistics and reasons.

    Raises:
        InputError: if the folder is no fit, the log cannot be read, or the state is of another
            model. The state file is then as it was.

    >>> import tempfile, warnings, prsrank
    >>> warnings.simplefilter("ignore")
    >>> folder, data = tempfile.mkdtemp(), "synthetic:personal:80"
    >>> lists = prsrank.load_dataset(data)
    >>> scores, users = lists.features[:, 10], prsrank.PositionBasedModel(eta=1)
    >>> old, new = (prsrank.simulate_clicks(lists, scores, users, sessions=900, seed=s, randomised=0.2)
    ...             for s in (1, 2))
    >>> fit = prsrank.fit_log(old, out=f"{folder}/run", data=data, trials=1, trees=20,
    ...                       weighting="prs", propensity="power:1", force=True)
    >>> prsrank.monitor_log(f"{folder}/run", new, every=450)
    <Monitoring: fine; 2 new windows>
    """
    check_every(every)
    plan = _plan_of(run)
    watched = _watched(run, plan)
    model = str(read_json(Path(run, "model", CARD)).get("checksum"))
    path = state_of(run) if state is None else Path(state)
    seen = read_state(path, model)
    if seen is None:
        seen = State(FORMAT, model, _reference(run, plan, watched), [])
    watched = seen.reference.watching(watched)
    windows: list[Window] = []
    with frame_file(features, "the table of features") as table:
        new = _new_plan(plan, data, table, mapping)
        with _loaded(log, replace(new, memory=memory), watched) as loaded:
            name = Path(log_name(log)).stem if is_path(log) else f"window {len(seen.windows) + 1}"
            for title, part in cut(loaded, every, name):
                share = part.extent().sessions / loaded.extent().sessions
                shared = replace(part, left_out=round(loaded.left_out * share))
                now = replace(summarise(shared, watched, title), before=seen.before(title))
                windows.append(judge(now, seen.reference, seen.number(title)))
                seen = seen.seen(windows[-1])
    seen.write(path)
    return Monitoring(str(run), seen, tuple(windows), path)


def _plan_of(run: FileName) -> Plan:
    if not Path(run).is_dir() or not is_fit(run):
        raise InputError(f"{run}: is not a folder that fit wrote")
    return Plan.from_json_dict(read_manifest(run)["settings"], run)


def _new_plan(plan: Plan, data: str | None, table: str | None, mapping: LogMapping | None) -> Plan:
    """Return the plan of a fit for a new log: what is given wins over what the fit was given."""
    mapping = plan.mapping if mapping is None else mapping
    table = mapping.feature_table if table is None and data is None else table
    if data is None and table is None:
        return replace(plan, mapping=mapping)
    return replace(plan, data=data, features=table, mapping=replace(mapping, feature_table=None))


def _watched(run: FileName, plan: Plan) -> Watched:
    file = Path(run, "propensity.json")
    curve = Propensities.load(file) if file.is_file() else None
    return Watched(plan, load_ranker(run), curve, {})


@contextmanager
def _loaded(log: Any, plan: Plan, watched: Watched) -> Iterator[PiecedLog]:
    """Read a log with the features of a plan, in the order of the model's."""
    with (
        LocalEngine() as engine,
        engine.open_log(log, mapping=plan.mapping, memory=plan.memory) as source,
    ):
        loaded = engine.load(source, mapping=plan.mapping, data=plan.collection(), table=plan.table)
        lists = features_for(watched.model, loaded.lists)
        names = watched.model.feature_names_
        if len(names) != lists.features.shape[1]:
            raise InputError(
                f"{log_name(log)}: docs have {lists.features.shape[1]} features, the model learned "
                f"from {len(names)}"
            )
        sessions = LocalSessions(logs_of(loaded), replace(lists, feature_names=names))
        yield replace(loaded, sessions=sessions)


def _reference(run: FileName, plan: Plan, watched: Watched) -> Reference:
    """Measure the log of a fit, or what it held out where the log is gone."""
    # over shuffled docs a gain is another than over the ranking in production
    gain = None if plan.holdout == RANDOMISED else gain_of(run)
    try:
        with _loaded(plan.log, plan, watched) as log:
            return measure(log, watched, source=f"the log of the fit, {plan.log}", gain=gain)
    except InputError as error:
        held_out = Path(run, "held_out")
        if Path(plan.log).exists() or not held_out.is_dir():
            raise InputError(f"the log of the fit cannot be read again: {error}") from error
    lists = replace(plan, data=str(held_out / "lists"), features=None, mapping=LogMapping())
    with _loaded(str(held_out / "log.parquet"), lists, watched) as log:
        source = "the held-out part of the fit, whose log is gone"
        return measure(log, watched, source=source, gain=gain)


def gain_of(run: FileName) -> Gain | None:
    """Return the gain over the logged ranking that fit found on held-out clicks."""
    differences = read_json(Path(run, "evaluation.json")).get("differences", [])
    wanted = {"ranker": judged_model(run).name, "against": LOGGED, "metric": METRIC, "part": "all"}
    gains = {
        row["estimator"]: row
        for row in differences
        if wanted.items() <= row.items() and None not in (row["low"], row["high"])
    }
    gain = next((gains[kind] for kind in ("dr", "clipped", "ips") if kind in gains), None)
    if gain is None:
        return None
    logged = gain["difference"] / gain["relative"] if gain["relative"] else 0.0
    return Gain(gain["difference"], gain["low"], gain["high"], logged)


def window_line(window: Window) -> dict[str, Any]:
    """Return a window as a line of JSON: verdict, reasons, and all statistics."""
    value = asdict(window)
    summary = value.pop("summary")
    for name in ("depths", "before"):  # of these the reasons tell
        del summary[name]
    line: dict[str, Any] = plain_json(
        {"window": summary.pop("name"), "verdict": value.pop("verdict"), **value, **summary}
    )
    return line
