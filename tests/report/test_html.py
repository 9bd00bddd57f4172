import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from prsrank.errors import InputError
from prsrank.report import html, parts
from prsrank.report.html import report_html, write_report


class Page(HTMLParser):
    """What a browser's parser makes of the page: elements, texts and scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.texts, self._open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self._open.append(tag)
            self.scripts.append([dict(attributes), ""])

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data):
        if self._open:
            self.scripts[-1][1] += data
        else:
            self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def policy(self):
        return next(a["content"] for a in self.all("meta") if "http-equiv" in a)

    @property
    def figures(self):
        return json.loads(next(text for a, text in self.scripts if a.get("id") == "figures"))

    def rows(self, figure):
        spec = self.figures[figure]["charts"][0]["spec"]
        return spec["data"]["values"]


@pytest.fixture
def page(report):
    return Page(report_html(report))


def test_texts_with_html_in_them_stay_texts(page, evil):
    assert [a.get("type") for a in page.all("script")] == ["application/json", None, None]
    assert page.all("img") == []
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
    whole = "".join(page.texts)
    for text in (f"Section {evil}", f"Text {evil}", f"Detail {evil}", f"query {evil}"):
        assert text in whole
    assert evil in {a.get("title") for a in page.all("td")}


def test_names_with_html_in_them_arrive_whole_in_the_charts(page, evil):
    assert [row["x"] for row in page.rows("importance")][2] == f"feature {evil}"
    assert f"gains {evil}" in page.figures
    raw = next(text for a, text in page.scripts if a.get("id") == "figures")
    assert not set("<>&\u2028") & set(raw)


def test_the_page_asks_for_nothing(page):
    for tag, attributes in page.elements:
        for name in ("src", "href", "srcset", "data", "action"):
            beside = tag == "a" and attributes.get(name) == "explore.html"  # a card's link
            assert beside or attributes.get(name, "#").startswith(("#", "data:"))
    style = next(text for a, text in page.scripts if a == {} and ":root" in text)
    assert not re.search(r"url\(|@import", style)
    assert "default-src 'none'" in page.policy


def test_the_policy_lets_run_just_the_page_s_own_scripts(page):
    allowed = re.search(r"script-src ([^;]*);", page.policy).group(1).split()
    run = [text for a, text in page.scripts if a == {} and ":root" not in text]
    hashes = [base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in run]
    assert allowed == [f"'sha256-{digest}'" for digest in hashes]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the library of the charts is kept, in this test."""
    monkeypatch.setattr(html, "cache_from_source", lambda _: str(tmp_path / "cache" / "html.pyc"))
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    html.chart_library.cache_clear()
    yield tmp_path / "cache"
    html.chart_library.cache_clear()


def test_the_library_of_the_charts_is_made_once_and_kept(folder, monkeypatch):
    made = html.chart_library()
    [kept] = folder.iterdir()
    html.chart_library.cache_clear()
    monkeypatch.setattr(html, "_made_library", lambda: pytest.fail("it is there"))
    assert html.chart_library() == made == kept.read_bytes().decode()
    assert "vegaEmbed" in made


@pytest.mark.parametrize("why", ["Python keeps nothing", "no folder can be made"])
def test_the_library_of_the_charts_need_not_be_kept(folder, monkeypatch, why):
    if why == "Python keeps nothing":
        monkeypatch.setattr("sys.dont_write_bytecode", True)
    else:
        folder.write_text("a file")
    before = sorted(folder.parent.iterdir())
    assert "vegaEmbed" in html.chart_library()
    assert sorted(folder.parent.iterdir()) == before


def test_structure_for_readers_by_ear(page):
    assert page.all("html")[0]["lang"] == "en"
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    targets = [a["href"][1:] for a in page.all("a") if a["href"].startswith("#")]
    assert set(targets) <= set(ids)
    labels = [a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a]
    assert set(labels) <= set(ids)
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(a.get("scope") in ("row", "col") for a in page.all("th"))
    assert all(a["aria-pressed"] in ("true", "false") for a in page.all("button"))


def test_every_value_of_a_figure_is_in_its_table(page, report):
    whole = " ".join(page.texts)
    for section in report["sections"]:
        for figure in section["figures"]:
            for panel in figure["panels"]:
                for series in panel["series"]:
                    for value in series["y"]:
                        assert f"{value:#.4g}" in whole


def test_verdicts_are_told_in_words(page):
    whole = " ".join(page.texts)
    for label in ("confirmed", "not confirmed", "contradicted"):
        assert re.search(rf"[✓○✗]\s+{label}", whole)


def test_marks_carry_their_notes(page):
    marked = [a for a in page.all("td") if a.get("title") == "p = 0.003, d = 0.41"]
    assert len(marked) == 2
    assert "p = 0.003, d = 0.41" in " ".join(page.texts)


def test_what_json_cannot_hold_is_left_out(report):
    series = report["sections"][0]["figures"][0]["panels"][0]["series"][0]
    series["y"][1] = float("nan")
    series["low"][2] = float("inf")
    shown = Page(report_html(report)).rows("fig1")
    rows = [row for row in shown if row["method"] == series["name"]]
    assert [row["x"] for row in rows] == [x for i, x in enumerate(series["x"]) if i != 1]
    assert rows[1]["low"] is None


def test_a_report_of_bare_bones(tmp_path):
    path = tmp_path / "new" / "r.html"
    write_report(parts.page("t", "", []), path)
    assert path.read_text().startswith("<!doctype html>")
    assert [p.name for p in path.parent.iterdir()] == ["r.html"]


def test_a_log_scale_from_zero_is_refused(report):
    series(report)["x"][0] = 0
    with pytest.raises(InputError, match="a log scale takes values above 0"):
        report_html(report)


def series(report):
    return report["sections"][0]["figures"][0]["panels"][0]["series"][0]
