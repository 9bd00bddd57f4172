import re
from collections import Counter
from xml.etree import ElementTree

import altair
import pytest

from prsrank.notebook.vega_lite import STYLES, figure_spec, panel_spec, series_names
from prsrank.report.charts import figure_picture, style_numbers, write_figures
from prsrank.report.html import panel_tips


def figures(report):
    return [figure for section in report["sections"] for figure in section["figures"]]


def texts(svg):
    return {node.text for node in ElementTree.fromstring(svg).iter() if node.text}  # noqa: S314


def test_pictures_of_every_figure_stand_alone(report, tmp_path):
    written = write_figures(report, tmp_path / "figures")
    assert sorted(p.name for p in written) == sorted(
        p.name for p in (tmp_path / "figures").iterdir()
    )
    assert len(written) == 2 * len(figures(report)) == 6
    for path in written:
        assert re.fullmatch(r"[\w-]+\.(png|svg)", path.name)
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG" if path.suffix == ".png" else b"<svg")
        assert b"var(" not in content


def test_a_picture_tells_title_axes_panels_and_methods(report):
    figure = figures(report)[0]
    shown = texts(figure_picture(figure, suffix=".svg"))
    panel = figure["panels"][0]
    assert {figure["title"], "clicks", "ndcg@10", "linear", "lambdamart", "dnn"} <= shown
    assert {series["name"] for series in panel["series"]} <= shown


def test_names_with_html_stay_texts_in_pictures(report, evil):
    svg = figure_picture(figures(report)[1], suffix=".svg")
    tree = ElementTree.fromstring(svg)  # noqa: S314
    assert not [node for node in tree.iter() if node.tag.endswith(("script", "img"))]
    assert "PageRank" in texts(svg)


def test_a_method_looks_the_same_in_all_figures_of_a_report(report, tmp_path):
    write_figures(report, tmp_path)
    colour = STYLES[style_numbers([["prs"]])["prs"]].light
    for figure, name in zip(figures(report), ("fig1", "importance", "gains-*"), strict=True):
        svg = next(tmp_path.glob(f"{name}.svg")).read_text()
        assert ("prs" in {s["name"] for s in figure["panels"][0]["series"]}) == (colour in svg)


def test_tips_hold_the_values_of_all_series_at_each_point():
    one = {"name": "a", "x": [3, 1], "y": [0.3, 0.1], "low": [0.2, 0.0], "high": [0.4, 0.2]}
    two = {"name": "b", "x": [1, 2], "y": [0.5, None], "low": None, "high": None}
    assert panel_tips({"title": "", "series": [one, two]}) == [
        [["a", "0.1000 (0.000 to 0.2000)"], ["b", "0.5000"]],
        [["b", "–"]],
        [["a", "0.3000 (0.2000 to 0.4000)"]],
    ]


@pytest.mark.parametrize("scale", ["linear", "ordinal"])
@pytest.mark.parametrize("kind", ["lines", "bars", "intervals"])
def test_every_kind_on_every_scale(report, kind, scale):
    figure = figures(report)[0] | {"kind": kind}
    figure["x"] = {"title": "x", "scale": scale}
    assert b"ndcg@10" in figure_picture(figure, suffix=".svg")
    # altair, which has Vega-Lite's schema, takes the specs
    altair.ConcatChart.from_dict(figure_spec(figure)).to_dict()
    marked = figure["panels"][0] | {"marks": [3]}
    styles = style_numbers([series_names([figure])])
    altair.LayerChart.from_dict(panel_spec(figure, marked, styles)).to_dict()


def test_intervals_of_one_method_a_row_need_no_room_beside(report):
    """A category of its own for each series: rows as high as for a single series."""

    def height(panel):
        figure = figures(report)[2] | {"panels": [{"title": "", "series": panel}]}
        return figure_spec(figure)["concat"][0]["height"]

    def series(name, x):
        return {"name": name, "x": x, "y": [0.1] * len(x), "low": None, "high": None}

    names = [f"m{i}" for i in range(9)]
    alone = height([series(name, [name]) for name in names])
    assert alone == height([series("one", names)])
    assert alone < height([series(name, names) for name in names])


def test_empty_series_and_panels_are_drawn(report):
    figure = figures(report)[0]
    empty = {"name": "prs", "x": [], "y": [], "low": None, "high": None}
    figure["panels"] = [{"title": "nothing", "series": [empty]}, {"title": "none", "series": []}]
    assert "nothing" in texts(figure_picture(figure, suffix=".svg"))


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("theme", "page"), [("light", "#ffffff"), ("dark", "#181c22")])
def test_every_colour_stands_out_from_the_page(theme, page):
    """WCAG 2: graphics need a contrast of 3."""
    for style in STYLES:
        low, high = sorted([luminance(getattr(style, theme)), luminance(page)])
        assert (high + 0.05) / (low + 0.05) >= 3


def test_styles_differ_in_more_than_colour():
    assert len({(style.dash, style.shape) for style in STYLES}) == len(STYLES)


def test_more_names_than_styles_share_them():
    numbers = style_numbers([[*(f"m{i}" for i in range(25)), "prs"]])
    counts = Counter(numbers.values())
    assert set(counts) == set(range(len(STYLES)))
    assert max(counts.values()) - min(counts.values()) <= 1


def test_names_of_one_figure_differ_though_the_report_has_many():
    figures = [["PRS", "ips", "naive", "pns", "Full information", "production"]]
    figures += [[f"{letter}{i}" for i in range(5)] + ["PRS"] for letter in "abcd"]
    numbers = style_numbers(figures)
    assert numbers["PRS"] == style_numbers([["x", "prs"]])["prs"]
    for figure in figures:
        assert len({numbers[name] for name in figure}) == len(figure)
