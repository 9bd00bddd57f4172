"""A browser, and a made-up report that has everything a page can show."""

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from chromium import Chromium, chromium

from prsrank.report.parts import card, page, section

EVIL = "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>"


def series(name, x, level, *, band=0.02):
    y = [level + 0.04 * math.log10(1 + i) for i in range(len(x))]
    return {
        "name": name, "x": list(x), "y": y,
        "low": [v - band for v in y], "high": [v + band for v in y],
    }  # fmt: skip


def lines_figure():
    clicks = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
    levels = {"production": 0.62, "naive": 0.66, "ips": 0.70, "pns": 0.69, "prs": 0.73}
    panel = [series(name, clicks, level) for name, level in levels.items()]
    panel.append({**series("full information", clicks, 0.80), "low": None, "high": None})
    return {
        "id": "fig1", "title": "Quality over the number of clicks",
        "caption": "Mean over five runs; bands are one standard deviation.",
        "alt": "ndcg@10 of each method rises with the number of clicks; prs is the highest.",
        "x": {"title": "clicks", "scale": "log"}, "y": {"title": "ndcg@10", "zero": False},
        "kind": "lines",
        "panels": [{"title": t, "series": panel} for t in ("linear", "lambdamart", "dnn")],
    }  # fmt: skip


def bars_figure():
    names = ["BM25 of the <b>body</b>", "PageRank", f"feature {EVIL}", "length of the URL"]
    values = {"name": "prs", "x": names, "y": [412.0, 207.5, 90.25, 3.0], "low": None, "high": None}
    return {
        "id": "importance", "title": "Feature importance", "caption": "Total gain of the splits.",
        "alt": "BM25 matters most.", "x": {"title": "", "scale": "ordinal"},
        "y": {"title": "gain", "zero": True}, "kind": "bars",
        "panels": [{"title": "", "series": [values]}],
    }  # fmt: skip


def intervals_figure():
    def one(name, values):
        low, high = [v - 0.03 for v in values], [v + 0.03 for v in values]
        return {"name": name, "x": ["linear", "dnn"], "y": values, "low": low, "high": high}

    return {
        "id": f"gains {EVIL}", "title": "Gain over production", "caption": "95 % intervals.",
        "alt": "prs gains most.", "x": {"title": "ranker", "scale": "ordinal"},
        "y": {"title": "gain in ndcg@10", "zero": True}, "kind": "intervals",
        "panels": [{"title": "", "series": [
            one("naive", [-0.01, 0.01]), one("ips", [0.05, 0.04]), one("prs", [0.08, 0.09])
        ]}],
    }  # fmt: skip


@pytest.fixture
def evil():
    return EVIL


@pytest.fixture
def report():
    table = {
        "id": "t1", "title": "Test part", "caption": "* better than ips at 5 %, corrected by Holm.",
        "columns": ["method", "ndcg@10", "map", "paper", "clicks"],
        "rows": [
            ["production", 0.62, 0.5512, None, 1_000_000],
            ["ips", 0.70, 0.61, 0.6904, 1_000_000],
            ["prs", {"value": 0.7301, "mark": "*", "note": "p = 0.003, d = 0.41"}, 0.64, 0.7210, 7],
            [f"query {EVIL}", {"value": None, "mark": "", "note": EVIL}, 0.1, 0.2, 3],
        ],
    }  # fmt: skip
    first = section(
        "fig1", "Figure 1: clicks", claim="PRS is above IPS at all numbers of clicks.",
        verdict={"label": "confirmed", "evidence": "All 7 comparisons are significant."},
        text=["Clicks are simulated from the labels."],
        figures=[lines_figure()], tables=[table, {**table, "id": "t2", "title": "Once more"}],
        details=[{"title": "Settings", "rows": [["eta", 1.0], ["folds", 5], ["grid", [0.1, 1]]]}],
        notes=["Tuned once, on the validation part."],
    )  # fmt: skip
    second = section(
        f"s {EVIL}", f"Section {EVIL}",
        text=[f"Text {EVIL} \u2028 end"], figures=[bars_figure(), intervals_figure()],
        cards=[card("bad", EVIL, f"Card {EVIL}", [EVIL], command=f"prsrank {EVIL}", links=[(EVIL, "explore.html")])],
        details=[{"title": f"Detail {EVIL}", "rows": [[EVIL, EVIL]]}],
        notes=[EVIL],
    )  # fmt: skip
    verdicts = [
        {"section": "fig1", "title": f"Claim {i}", "claim": "PRS is above IPS.", "label": label,
         "evidence": "7 of 7 comparisons, p < 0.01."}
        for i, label in enumerate(("confirmed", "not confirmed", "contradicted"), 1)
    ]  # fmt: skip
    return page(
        "The experiments on a made-up collection", "synthetic:mq2007:60", [first, second],
        lead=["Three claims were tested."], verdicts=verdicts,
        about=[["prsrank", "0.1"], ["seed", 2024], ["command", f"reproduce all {EVIL}"]],
    )  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(chromium(), tmp_path_factory.mktemp("profile")) as started:
        yield started
