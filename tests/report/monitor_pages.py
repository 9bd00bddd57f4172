"""A made-up state of a monitor: a reference and some windows, names and ids as they come."""

import math
from pathlib import Path

from prsrank.monitor.checks import Reason, Window
from prsrank.monitor.monitoring import FORMAT, Monitoring, State
from prsrank.monitor.ratios import Curve, Power, Ratio
from prsrank.monitor.summary import Gain, Reference, Summary

POSITIONS = 12
_RATIOS = {
    "clicks per session": 1.2, "docs per session": 11.5, "randomised": 0.1, "gaps": 0.0,
    "late": 0.0, "greedy": 0.012, "depth": 0.7, "order": 0.45, "left out": 0.0,
}  # fmt: skip


def curve(eta, method="randomised"):
    p = [k**-eta for k in range(1, POSITIONS + 1)]
    return Curve(method, p, [0.9 * x for x in p], [1.1 * x for x in p], [50] * POSITIONS)


def summary(name, *, eta=1.0, gain=0.12):
    shown = [1500 - 60 * k for k in range(POSITIONS)]
    clicked = [round(0.4 * n / (k + 1) ** eta) for k, n in enumerate(shown)]
    return Summary(
        name=name, begin="2026-01-05 00:00:01", end="2026-01-05 23:59:59", sessions=1500,
        queries=240, clicks=sum(clicked),
        ratios={key: Ratio(x, 0.03 * x, 99.0, 1500 * x, 1500.0) for key, x in _RATIOS.items()},
        shown=shown, clicked=clicked, depth_spread=0.5, depths=None, before=None, features={}, orders={},
        curve=curve(eta), power=Power(eta, 0.06), gain=Gain(gain, gain - 0.04, gain + 0.05, 1.1),
        effective_clicks=512.3, effective_queries=88.0,
    )  # fmt: skip


def monitoring(*, windows=5, evil=""):
    """Return what a monitor found: quiet windows, and a last one of a steeper curve."""
    feature = f"price{evil}"
    quiet = [
        Window(summary(f"2026-01-{5 + i:02d}", gain=0.12 + 0.01 * math.sin(i)), "fine", [], [])
        for i in range(windows - 1)
    ]
    what = f"clicks fall as if the exponent were 0.33 larger{evil}"
    reasons = [
        Reason("fall", "retrain", what, 1e-8, "train again on sessions since the change"),
        Reason("features", "look", f"feature {feature} moved", 1e-9, "compare how it is made"),
    ]
    last = summary(f"2026-01-{4 + windows:02d}{evil}", eta=1.33, gain=0.03)
    last_window = Window(last, "retrain", reasons, [f"a note{evil}"])
    reference = Reference(
        f"the log of the fit, log.parquet{evil}", summary("reference"), {feature: [3.0]},
        {feature: 0.41}, curve(1.0, ""), Gain(0.13, 0.10, 0.16, 1.1),
    )  # fmt: skip
    state = State(FORMAT, "abc", reference, [*quiet, last_window])
    return Monitoring(f"fitted{evil}", state, (last_window,), Path("fitted.monitor.json"))
