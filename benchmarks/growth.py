"""Time of a fit by the number of clicks: ours, and one group per session with LightGBM's `position`.

Both train 50 trees on `synthetic:web10k:2000`, as in `training.py` (`expanded_ratio`), from the log in
memory to the model, each time in a process of its own. The expanded rows grow with the sessions, so
that route ends at 128 thousand clicks. Run: python benchmarks/growth.py --json --picture FILE.svg
"""

import argparse
import json
from pathlib import Path
from typing import Any

from ingest import apart

DATA = "synthetic:web10k:2000"
OURS = (2_000, 8_000, 32_000, 128_000, 1_280_000, 12_800_000)
EXPANDED = (2_000, 8_000, 32_000, 128_000)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--picture", type=Path, help="an SVG file to draw")
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--most", type=int, default=max(OURS), help="clicks at most")
    options = parser.parse_args()
    found = {
        "ours": {n: measured("ours", options.data, n) for n in OURS if n <= options.most},
        "expanded": {
            n: measured("expanded", options.data, n) for n in EXPANDED if n <= options.most
        },
    }
    if options.json:
        print(json.dumps(found))
    else:
        for route, times in found.items():
            print(f"{route:10}", *(f"{n:>10,}: {seconds:6.1f} s" for n, seconds in times.items()))
    if options.picture:
        from prsrank.report.charts import figure_picture

        options.picture.write_bytes(figure_picture(figure(found), suffix=".svg"))


def measured(route: str, data: str, clicks: int) -> float:
    """Return the seconds of a fit."""
    return apart(run, route, data, clicks)[f"{route}_s"]


def run(route: str, data: str, clicks: int) -> dict[str, float]:
    """Run a task of `training.py` with another number of clicks."""
    import training

    training.CLICKS = clicks
    found: dict[str, float] = getattr(training, f"task_{route}")(data, 1)
    return found


def figure(found: dict[str, dict[int, float]]) -> dict[str, Any]:
    """Return the picture of all times."""
    from prsrank.report.parts import series

    names = {"ours": "prsrank", "expanded": "one group per session, LightGBM position"}
    drawn = [series(names[route], t.items()) for route, t in found.items()]
    return {
        "id": "fit-by-clicks",
        "title": "Time of a fit by the number of clicks",
        "caption": "",
        "alt": "Line chart of seconds over clicks.",
        "x": {"title": "clicks in the log", "scale": "log"},
        "y": {"title": "seconds", "zero": True},
        "kind": "lines",
        "panels": [{"title": "", "series": drawn}],
    }


if __name__ == "__main__":
    main()
