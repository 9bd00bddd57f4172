"""The page in a real browser."""

import pytest

from prsrank.report.html import write_report

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser, report, tmp_path):
    """The report, opened anew in a wide window; at its end nothing may have gone wrong."""
    browser.events.clear()
    browser.size(1280, 900)
    path = tmp_path / "report.html"
    write_report(report, path)
    browser.open(path.as_uri())
    yield browser
    assert browser.errors() == []
    assert browser.requests() == [path.as_uri()]


CHART = "#figure-fig1 .chart[data-panel='0']"
# the lines of the chart: paths that are drawn and not filled
LINES = f"document.querySelectorAll(\"{CHART} .mark-line path[d]:not([d=''])\").length"


def test_every_chart_is_drawn_and_nothing_injected_ran(page):
    assert page.run("document.documentElement.dataset.drawn") == "yes"
    assert page.run("document.querySelectorAll('.chart svg').length") == 5
    assert page.run("document.title") == "The experiments on a made-up collection"
    assert page.run("document.images.length") == 0


def test_hover_shows_the_values_of_all_methods_at_the_point(page, report):
    x, y = page.middle(f"{CHART} svg")
    page.move(x, y)
    page.wait("!document.getElementById('tip').hidden")
    lines = page.run("document.getElementById('tip').innerText").split("\n")
    shown = {parts[-2].strip(): parts[-1] for line in lines if len(parts := line.split("\t")) > 1}
    clicks = float(lines[0].removeprefix("clicks: ").replace(",", ""))
    for series in report["sections"][0]["figures"][0]["panels"][0]["series"]:
        value = series["y"][series["x"].index(clicks)]
        assert float(shown[series["name"]].split()[0]) == pytest.approx(value, abs=1e-4)
    page.move(5, 5)
    page.wait("document.getElementById('tip').hidden")


@pytest.mark.parametrize("by", ["pointer", "keyboard"])
def test_a_method_is_switched_off_and_on_again(page, by):
    button = "#figure-fig1 button[data-method='prs']"
    pressed = f'document.querySelector("{button}").getAttribute("aria-pressed")'

    def switch():
        if by == "pointer":
            page.click(button)
        else:
            page.run(f'document.querySelector("{button}").focus()')
            page.press("Enter", "\r")

    assert page.run(LINES) == 6
    switch()
    page.wait(f"{LINES} === 5")
    assert page.run(pressed) == "false"
    colour = (
        "[...document.querySelectorAll(\"%s .mark-line path\")].map(p => p.getAttribute('stroke'))"
    )
    assert "var(--m0)" not in page.run(colour % CHART)
    x, y = page.middle(f"{CHART} svg")
    page.move(x, y)
    page.wait("!document.getElementById('tip').hidden")
    assert "prs" not in page.run("document.getElementById('tip').innerText")
    assert "ips" in page.run("document.getElementById('tip').innerText")
    switch()
    page.wait(f"{LINES} === 6")
    assert page.run(pressed) == "true"


def test_dark_and_light_recolour_page_and_charts(page):
    look = (
        "[getComputedStyle(document.body).backgroundColor,"
        f'getComputedStyle(document.querySelector("{CHART} .mark-line path")).stroke]'
    )
    page.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}]
    )
    light = page.run(look)
    page.click("#theme")
    dark = page.run(look)
    assert page.run("document.getElementById('theme').getAttribute('aria-pressed')") == "true"
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    page.click("#theme")
    assert page.run(look) == light
    page.run("delete document.documentElement.dataset.theme")
    page.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert page.run(look) == dark
    page.call("Emulation.setEmulatedMedia", features=[])


@pytest.mark.parametrize("width", [360, 390, 820])
def test_nothing_sticks_out_of_a_narrow_window(page, width):
    page.run("for (const d of document.querySelectorAll('details')) d.open = true")
    page.size(width, 844)
    page.wait(f'document.querySelector("{CHART} svg").getBoundingClientRect().right <= {width}')
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run("document.body.scrollWidth") <= width


def test_print_opens_everything_in_light_colours(page):
    stroke = f'getComputedStyle(document.querySelector("{CHART} .mark-line path")).stroke'
    page.run("document.documentElement.dataset.theme = 'light'")
    light = page.run(stroke)
    page.run("document.documentElement.dataset.theme = 'dark'")
    assert page.run(stroke) != light
    page.call("Emulation.setEmulatedMedia", media="print")
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run("document.querySelectorAll('details:not([open])').length") == 0
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run(stroke) == light
    page.run("dispatchEvent(new Event('afterprint'))")
    page.call("Emulation.setEmulatedMedia", media="")
    assert page.run("document.querySelectorAll('details[open]').length") == 0


def test_every_control_has_a_name_and_is_reached_by_keyboard(page):
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    controls = [
        node for node in tree
        if node.get("role", {}).get("value") in ("button", "link", "region", "figure")
        and not node["ignored"]
    ]  # fmt: skip
    assert len(controls) > 15
    assert [node for node in controls if not node.get("name", {}).get("value", "").strip()] == []
    page.press("Tab", "\t")
    assert page.run("document.activeElement.textContent") == "Skip to the content"
