r"""The claim of an experiment in machine form: which values are to be compared with which.

A spec's `test` is a list of tables. Each names the claimed winner by one of three verbs:

| verb | the winner's value is claimed to be |
| --- | --- |
| `better` | larger, or smaller if the metric is one of which less is better (arp) |
| `above` | larger |
| `below` | smaller |

and the rest by these keys:

| key | means |
| --- | --- |
| `than` | the rival method, a list of them, or a number; the winner itself by default if `at` is given |
| `metric` | a metric or a list of them; the spec's first by default |
| `panels` | a list, or "all" (default): every panel that has winner and rival |
| `points` | a list, or "all" (default): every point but `at` and `relative_to` |
| `at` | the winner's point, where it is another than the rival's |
| `than_panel` | the rival's panel, where it is another than the winner's |
| `relative_to` | a point: compare value(point) - value(relative_to), so that who loses less wins |
| `margin` | the winner may be worse by this much (default 0): "not worse", "at most", "at least" |

>>> claim = read_test({"better": "prs", "than": "ips", "points": [1, 2]}, metrics=["arp"])
>>> claim.rivals, claim.metrics, claim.points, claim.lower_wins("arp")
(('ips',), ('arp',), (1, 2), True)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prsrank.errors import InputError
from prsrank.experiment.metric_names import lower_is_better
from prsrank.experiment.spec import Point
from prsrank.experiment.spec_checks import check_keys, is_number, one_of

VERBS = ("better", "above", "below")
KEYS = (*VERBS, "than", "metric", "panels", "points", "at", "relative_to", "than_panel", "margin")


@dataclass(frozen=True)
class ClaimTest:
    """One entry of a spec's `test` list; the table in the module's docstring says more.

    Attributes:
        verb: "better", "above" or "below".
        winner: method claimed to win.
        rivals: methods or numbers that it is compared with.
        metrics: metrics compared.
        panels: panels compared; None for all.
        points: points compared; None for all.
        at: the winner's point, or None for the rival's.
        relative_to: point whose values are subtracted, or None.
        margin: by how much the winner may be worse.
        than_panel: the rival's panel, or None for the winner's.
    """

    verb: str
    winner: str
    rivals: tuple[str | float, ...]
    metrics: tuple[str, ...]
    panels: tuple[str, ...] | None = None
    points: tuple[Point, ...] | None = None
    at: Point | None = None
    relative_to: Point | None = None
    margin: float = 0.0
    than_panel: str | None = None

    @property
    def methods(self) -> set[str]:
        """The methods compared."""
        return {self.winner, *(rival for rival in self.rivals if isinstance(rival, str))}

    def lower_wins(self, metric: str) -> bool:
        """Whether the smaller value of the metric is claimed to win."""
        return self.verb == "below" or (self.verb == "better" and lower_is_better(metric))


def read_test(entry: Mapping[str, Any], *, metrics: Sequence[str]) -> ClaimTest:
    """Read one entry of a spec's `test` list.

    Args:
        entry: the entry, as TOML gives it.
        metrics: the spec's metrics, the main one first.
    """
    check_keys(entry, KEYS, "key")
    verbs = [verb for verb in VERBS if verb in entry]
    if len(verbs) != 1:
        raise InputError(f"give one of {', '.join(VERBS)}, not {len(verbs)} of them")
    winner = _text(entry[verbs[0]], verbs[0])
    if "than" not in entry and "at" not in entry:
        raise InputError(f"{verbs[0]} = '{winner}' needs than = a method or a number")
    claim = ClaimTest(
        verb=verbs[0],
        winner=winner,
        rivals=tuple(_rival(rival) for rival in _list(entry.get("than", winner))),
        metrics=tuple(_text(m, "metric") for m in _list(entry.get("metric", metrics[0]))),
        panels=_all_or_list(entry.get("panels", "all"), "panels"),
        points=_all_or_list(entry.get("points", "all"), "points"),
        at=entry.get("at"),
        relative_to=entry.get("relative_to"),
        margin=entry.get("margin", 0.0),
        than_panel=entry.get("than_panel"),
    )
    if not is_number(claim.margin) or not claim.margin >= 0:
        raise InputError(f"margin must be a number of 0 or more, not {claim.margin!r}")
    if claim.verb == "better":
        for metric in claim.metrics:
            lower_is_better(metric)
    return claim


def check_test(
    test: Iterable[Mapping[str, Any]],
    *,
    methods: Sequence[str],
    metrics: Sequence[str],
    panels: Sequence[str] = (),
    points: Sequence[Point],
) -> None:
    """Check a spec's `test` list against the spec's own names.

    Args:
        test: the list.
        methods: names of the spec's methods.
        metrics: names of its metrics.
        panels: names of its panels.
        points: points of its axis.

    Raises:
        InputError: naming the first unknown key, method, metric, panel or point and the
            nearest valid one.
    """
    for entry in test:
        try:
            claim = read_test(entry, metrics=metrics)
            for name in sorted(claim.methods):
                one_of(name, methods, "method")
            for name in claim.metrics:
                one_of(name, metrics, "metric")
            for name in _given(*(claim.panels or ()), claim.than_panel):
                one_of(name, panels, "panel")
            for point in _given(*(claim.points or ()), claim.at, claim.relative_to):
                _check_point(point, points)
        except InputError as error:
            raise InputError(f"test: {error}") from error


def same_point(one: Point, other: Point) -> bool:
    """Whether two points are the same: numbers by value, whatever their type.

    >>> same_point(1, 1.0), same_point("1", 1.0), same_point("", "")
    (True, False, True)
    """
    return isinstance(one, str) == isinstance(other, str) and one == other


def _given(*values: Any) -> list[Any]:
    return [value for value in values if value is not None]


def _check_point(point: Point, valid: Sequence[Point]) -> None:
    if not any(same_point(point, other) for other in valid):
        raise InputError(f"no point {point} on the axis; there are {', '.join(map(str, valid))}")


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _all_or_list(value: Any, key: str) -> tuple[Any, ...] | None:
    if value == "all":
        return None
    if not isinstance(value, list | tuple) or not value:
        raise InputError(f'{key} must be a list or "all", not {value!r}')
    return tuple(value)


def _rival(value: Any) -> str | float:
    if not is_number(value) and not isinstance(value, str):
        raise InputError(f"than must be a method or a number, not {value!r}")
    return value if isinstance(value, str) else float(value)


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{key} must be a name, not {value!r}")
    return value
