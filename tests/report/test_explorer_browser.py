"""The explorer in a real browser."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from explorer_pages import made

from prsrank.report.explorer import PageTexts, explorer_html, write_explorer

pytestmark = pytest.mark.browser

QUERIES, DOCS = 230, 12
NASTY = ["</script><script>document.title='broken'</script>", 'it\'s "quoted" & <b>bold</b>']
NASTY += ["\u2028\u2029line", "<img src=x onerror=alert(1)>", "=1+1", "a&query=b#c"]


@pytest.fixture(scope="module")
def explored():
    queries = [*NASTY, *(f"query {i}" for i in range(QUERIES - len(NASTY)))]
    docs = [*NASTY, *(f"d{i}" for i in range(QUERIES * DOCS - len(NASTY)))]
    names = ("model", "prs")
    return made(QUERIES, DOCS, features=9, names=names, query_ids=queries, doc_ids=docs, seed=7)


@pytest.fixture(scope="module")
def path(explored, tmp_path_factory):
    found, _, _ = explored
    titles = [f"Shoe {name}" for name in found.doc_ids]
    titles[-DOCS:] = ["Hat", "Hat", "", *titles[3 - DOCS :]]
    texts = PageTexts(
        source="log.parquet",
        titles={"model": "the model"},
        columns={"title": titles},
        held_out=found.query_ids[::3],
    )
    file = tmp_path_factory.mktemp("page") / "explore.html"
    write_explorer(explorer_html(*explored, texts), file)
    return file


@pytest.fixture
def page(browser, path):
    """The page, opened anew; at its end nothing may have gone wrong."""
    browser.call("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.size(1280, 900)
    browser.open(path.as_uri())
    assert browser.run("document.documentElement.dataset.drawn") == "yes"
    yield browser
    assert browser.errors() == []
    assert {address.partition("#")[0] for address in browser.requests()} <= {path.as_uri()}


def listed(page):
    return page.run(
        "[...document.querySelectorAll('#list li')].map(one => Number(one.dataset.query))"
    )


def put(page, field, value):
    """Give a field a value, as a person does."""
    event = "input" if field == "search" else "change"
    page.run(
        f"(() => {{ const at = document.getElementById('{field}'); at.value = {json.dumps(value)};"
        f"at.dispatchEvent(new Event('{event}', {{bubbles: true}})) }})()"
    )


def title(page):
    return page.run("document.getElementById('title').textContent")


def names(page, order):
    """The docs of an order, by their rows."""
    return page.run(
        f"[...document.querySelectorAll('.{order} button')].map(one => Number(one.dataset.doc))"
    )


def test_queries_come_by_gain_fifty_at_a_time(page, explored):
    by_gain = np.argsort(-explored[0].gain[0].astype(np.float32), kind="stable").tolist()
    assert listed(page) == by_gain[:50]
    assert title(page) == explored[0].query_ids[by_gain[0]]
    for shown in (100, 150, 200, QUERIES):
        page.click("#more")
        assert listed(page) == by_gain[:shown]
    assert page.run("document.getElementById('more').hidden")


def test_search_finds_queries_and_docs(page, explored):
    put(page, "search", "QUERY 17")
    wanted = [q for q, name in enumerate(explored[0].query_ids) if "query 17" in name]
    found = set(listed(page))
    assert set(wanted) <= found
    assert "search=QUERY+17" in page.run("location.hash")
    put(page, "search", "d2000 shoe")
    assert listed(page) == [(2000 + len(NASTY)) // DOCS]
    assert page.run("document.getElementById('found').textContent").startswith("1 query, ")
    put(page, "search", "nothing like it")
    assert listed(page) == []
    assert page.run("document.getElementById('download').disabled")


@pytest.mark.parametrize("sort", ["loss", "total", "traffic", "uncertainty", "name"])
def test_queries_are_sorted(page, explored, sort):
    found = explored[0]
    gain = found.gain[0].astype(np.float32).astype(float)
    keys = {
        "loss": gain,
        "total": -gain * found.sessions,
        "traffic": -found.sessions,
        "uncertainty": -found.deviation[0],
    }
    put(page, "sort", sort)
    got = listed(page)
    if sort == "name":
        shown = [found.query_ids[q] for q in got if found.query_ids[q].startswith("query ")]
        assert shown == [f"query {i}" for i in range(len(shown))]
        assert len(shown) >= 40
    else:
        values = keys[sort][got]
        assert (np.diff(values) >= -1e-3 * np.abs(values[1:])).all()  # deviations are rounded
        assert values[0] == pytest.approx(keys[sort].min(), rel=1e-3)


def test_filters_keep_what_they_say(page, explored):
    found = explored[0]
    gain, half = found.gain[0], 1.96 * found.deviation[0]
    for show, marks in (("losses", gain < 0), ("clear-gains", gain > half * 1.001)):
        put(page, "show", show)
        assert page.run("document.getElementById('found').textContent").startswith(
            f"{marks.sum()} quer"
        )
        assert marks[listed(page)].all()
    put(page, "show", "all")
    page.click("#held")
    assert {query % 3 for query in listed(page)} == {0}


def test_both_orders_are_joined_by_lines_and_movers_marked(page, explored):
    found = explored[0]
    query = listed(page)[0]
    docs = np.arange(found.offsets[query], found.offsets[query + 1])
    assert names(page, "logged") == docs[np.argsort(found.logged[docs])].tolist()
    assert names(page, "ranked") == docs[np.argsort(found.ranks[0, docs])].tolist()
    marks = page.run("[...document.querySelectorAll('.ranked .aside')].map(one => one.textContent)")
    moved = (found.logged - found.ranks[0])[names(page, "ranked")]
    assert marks == ["▲▼"[m < 0] + str(abs(m)) if m else "" for m in moved.tolist()]
    boxes = page.run(
        "[...document.querySelectorAll('.orders path')].map(line => { const box = line.getBoundingClientRect();"
        "const doc = line.dataset.doc, mid = order => { const b = document.querySelector(`.${order} "
        'button[data-doc="${doc}"]`).getBoundingClientRect(); return b.y + b.height / 2 };'
        "return [box.top, box.bottom, mid('logged'), mid('ranked')] })"
    )
    assert len(boxes) == DOCS
    for top, bottom, one, other in boxes:
        assert top == pytest.approx(min(one, other), abs=2)
        assert bottom == pytest.approx(max(one, other), abs=2)


def test_docs_are_named_by_their_text_and_told_apart_by_their_id(page, explored):
    found = explored[0]
    page.run(f"location.hash = 'query={found.query_ids[-1].replace(' ', '+')}'")
    page.wait(f"document.getElementById('title').textContent === {json.dumps(found.query_ids[-1])}")
    shown = page.run("[...document.querySelectorAll('.logged .name')].map(one => one.textContent)")
    first, second, third, *rest = found.doc_ids[-DOCS:].tolist()
    wanted = {f"Hat ({first})", f"Hat ({second})", third, *(f"Shoe {name}" for name in rest)}
    assert set(shown) == wanted


def test_another_ranker_has_its_own_order_and_gains(page, explored):
    found = explored[0]
    query = listed(page)[0]
    page.run(
        "(() => { const at = document.getElementById('ranker'); at.selectedIndex = 1;"
        "at.dispatchEvent(new Event('change')) })()"
    )
    docs = np.arange(found.offsets[query], found.offsets[query + 1])
    assert names(page, "ranked") == docs[np.argsort(found.ranks[1, docs])].tolist()
    assert listed(page)[0] == found.gain[1].argmax()
    assert "ranker=prs" in page.run("location.hash")
    assert page.run("document.querySelector('.orders h3:nth-child(2)').textContent") == "prs"


def why(page):
    """What the page says about two docs: feature -> difference."""
    page.wait("!!document.querySelector('#why table')")
    rows = page.run(
        "[...document.querySelectorAll('#why tbody tr')].map(r => [r.cells[0].innerText, r.cells[1].innerText])"
    )
    return {name: float(value.replace("−", "-")) for name, value in rows}


@pytest.mark.parametrize("by", ["pointer", "keyboard"])
def test_two_docs_are_told_apart_by_their_features(page, explored, by):
    _found, lists, rankers = explored
    above, *_, below = names(page, "ranked")
    if by == "pointer":
        page.click(".ranked li:last-child button")
        page.click(".ranked li:first-child button")
    else:
        page.run("document.querySelector('.ranked button').focus()")
        page.press("Enter", "\r")
        for _ in range(DOCS - 1):
            page.press("ArrowDown", "")
        page.press("Enter", "\r")
    told = why(page)
    each = (lists.features[above].astype(float) - lists.features[below]) * rankers["model"].weights_
    order = np.argsort(-np.abs(each))
    *features, rest, total = told
    assert features == [lists.feature_names[i] for i in order[:6]]
    assert rest == "all other features (3)"
    for name, i in zip(features, order, strict=False):
        assert told[name] == pytest.approx(each[i], rel=2e-3, abs=1e-3)
    assert told[total] == pytest.approx(each.sum(), abs=1e-3)
    assert told[rest] == pytest.approx(each[order[6:]].sum(), abs=5e-3)


def test_a_view_is_in_the_address(page, path, explored):
    found = explored[0]
    query = NASTY.index("a&query=b#c")
    put(page, "sort", "name")
    page.run(
        "(() => { const at = document.getElementById('ranker'); at.selectedIndex = 1;"
        "at.dispatchEvent(new Event('change')) })()"
    )
    while not page.run(f"!!document.getElementById('query-{query}')"):
        page.click("#more")
    page.click(f"#query-{query}")
    page.click(".ranked li:nth-child(2) button")
    page.click(".ranked li:nth-child(5) button")
    before = why(page)
    address = page.run("location.href")
    page.call("Page.navigate", url="about:blank")
    page.open(address)
    assert title(page) == found.query_ids[query]
    assert page.run("document.getElementById('sort').value") == "name"
    assert page.run("document.getElementById('ranker').selectedIndex") == 1
    assert why(page) == before
    selected = "document.querySelector('#list [aria-selected=true]').dataset.query"
    assert page.run(selected) == str(query)
    page.run("location.hash = 'query=query+5&sort=traffic'")
    page.wait("document.getElementById('sort').value === 'traffic'")
    assert title(page) == "query 5"
    page.run("location.hash = 'query=gone&ranker=none&sort=toString&show=x'")
    page.wait("document.getElementById('sort').value === 'gain'")
    assert listed(page)[0] == found.gain[0].argmax()


def test_the_list_is_used_by_keyboard(page):
    page.run("document.getElementById('search').focus()")
    page.press("Enter", "\r")
    assert page.run("document.activeElement.id") == "list"
    for key, index in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", QUERIES - 1)):
        page.press(key, "")
        active = page.run("document.getElementById('list').getAttribute('aria-activedescendant')")
        assert active == f"query-{listed(page)[index]}"
    page.press("Home", "")
    page.press("Enter", "\r")
    assert page.run("document.activeElement.id") == "title"
    outline = "getComputedStyle(document.querySelector('.ranked button')).outlineStyle"
    page.run("document.querySelector('.ranked button').focus()")
    page.press("ArrowLeft", "")
    assert page.run("!!document.activeElement.closest('.logged')")
    page.press("ArrowRight", "")
    assert page.run(outline) == "solid"


def test_the_selection_is_downloaded_as_csv(page, explored, tmp_path):
    found = explored[0]
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    put(page, "search", "=1+1")
    (query,) = listed(page)[:1]
    count = len(listed(page))
    page.click("#download")
    page.wait("true")
    file = tmp_path / "queries.csv"
    for _ in range(200):
        if file.exists() and file.stat().st_size:
            break
        page.settle()
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == count * DOCS
    first = rows[0]
    doc = next(d for d in range(len(found.doc_ids)) if first["title"] == f"Shoe {found.doc_ids[d]}")
    assert (int(first["rank"]), int(first["logged_rank"])) == (1, found.logged[doc])
    assert float(first["theta"]) == pytest.approx(found.evidence["theta"][doc], rel=1e-3)
    assert float(first["query_gain"]) == pytest.approx(found.gain[0, query], rel=1e-3)
    texts = {row["query_id"] for row in rows} | {row["doc_id"] for row in rows}
    assert "'=1+1" in texts  # a formula is none
    assert "=1+1" not in texts


def test_ids_are_text_whatever_they_are(page, explored):
    page.run(f"location.hash = 'query=' + encodeURIComponent({json.dumps(NASTY[0])})")
    page.wait(f"document.getElementById('title').textContent === {json.dumps(NASTY[0])}")
    shown = page.run("[...document.querySelectorAll('.docs tbody th')].map(one => one.textContent)")
    assert set(NASTY) <= set(shown)
    assert page.run("document.title") == "Query explorer"
    assert page.run("document.images.length") == 0
    assert page.run("document.querySelectorAll('#detail b b, #detail script').length") == 0


@pytest.mark.parametrize("width", [360, 390, 820])
def test_nothing_sticks_out_of_a_narrow_window(page, width):
    page.click(".ranked li:first-child button")
    page.click(".ranked li:last-child button")
    why(page)
    page.run("for (const d of document.querySelectorAll('details')) d.open = true")
    page.size(width, 844)
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run("document.body.scrollWidth") <= width


def test_a_sample_is_said_and_texts_of_queries_are_shown(page, explored, tmp_path):
    found, lists, rankers = explored
    why = np.full(QUERIES, -1)
    why[[7, 9, 20]] = 0, 3, 3
    few, _, _ = made(
        QUERIES, DOCS, features=9, names=found.rankers, query_ids=list(found.query_ids),
        doc_ids=list(found.doc_ids), seed=7, why=why,
    )  # fmt: skip
    few = replace(few, queries=QUERIES)
    texts = PageTexts(columns={"words": np.repeat(["red shoes", "hats", "<i>"], DOCS).tolist()})
    file = tmp_path / "few.html"
    write_explorer(explorer_html(few, lists, rankers, texts), file)
    page.open(file.as_uri())
    said = page.run("document.getElementById('sample').textContent")
    assert said.startswith(
        "A sample, 3 of 230 queries: 1 of most sessions, 0 of largest gain, 0 of largest loss, 2 drawn at random"
    )
    assert page.run("document.getElementById('held-label').hidden")
    put(page, "search", "red")
    assert listed(page) == [0]
    page.click("#query-0")
    assert title(page) == f"red shoes · {found.query_ids[7]}"
    assert "in the sample as one of most sessions" in page.run(
        "document.querySelector('.facts').innerText.replace(/\\s+/g, ' ')"
    )
    assert page.errors() == []
    page.events.clear()


def test_on_a_phone_a_query_that_opens_is_in_view(page, explored):
    page.size(390, 844)
    query = listed(page)[2]
    page.click(f"#query-{query}")
    assert title(page) == explored[0].query_ids[query]
    page.wait(
        "(box => box.top >= 0 && box.bottom <= innerHeight)"
        "(document.getElementById('title').getBoundingClientRect())"
    )


def test_dark_and_light_recolour_the_page(page):
    look = (
        "[document.body, document.querySelector('.queries'), document.querySelector('.name')]"
        ".map(one => getComputedStyle(one).backgroundColor + getComputedStyle(one).color)"
    )
    page.run("document.documentElement.dataset.theme = 'light'")
    light = page.run(look)
    page.click("#theme")
    assert all(one != other for one, other in zip(light, page.run(look), strict=True))


def test_every_control_has_a_name(page):
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = ("button", "link", "region", "listbox", "option", "combobox", "searchbox", "checkbox")
    controls = [
        node for node in tree
        if node.get("role", {}).get("value") in roles and not node["ignored"]
    ]  # fmt: skip
    assert {node["role"]["value"] for node in controls} >= {"listbox", "option", "searchbox"}
    assert [node for node in controls if not node.get("name", {}).get("value", "").strip()] == []
    page.press("Tab", "\t")
    assert page.run("document.activeElement.textContent") == "Skip to the query"
