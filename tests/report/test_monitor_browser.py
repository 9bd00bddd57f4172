"""The page of a monitor in a real browser."""

import pytest
from monitor_pages import monitoring

from prsrank.report.html import write_report
from prsrank.report.monitor_report import monitor_report

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser, evil, tmp_path):
    """The page, with ids that would break it; at its end nothing may have gone wrong."""
    browser.events.clear()
    browser.size(1280, 900)
    path = tmp_path / "monitor.html"
    write_report(monitor_report(monitoring(evil=evil)), path)
    browser.open(path.as_uri())
    yield browser
    assert browser.errors() == []
    assert browser.requests() == [path.as_uri()]


def test_every_chart_is_drawn_and_nothing_injected_ran(page, evil):
    assert page.run("document.documentElement.dataset.drawn") == "yes"
    figures = page.run("document.querySelectorAll('figure .chart').length")
    assert page.run("document.querySelectorAll('.chart svg').length") == figures == 4
    assert page.run("document.title") == "Monitor"
    assert page.run("document.images.length") == 0
    assert evil in page.run("document.body.textContent")


@pytest.mark.parametrize("width", [390, 820])
def test_nothing_sticks_out_of_a_narrow_window(page, width):
    page.run("for (const d of document.querySelectorAll('details')) d.open = true")
    page.size(width, 844)
    page.wait(
        "Math.max(...[...document.querySelectorAll('.chart svg')].map("
        f"s => s.getBoundingClientRect().right)) <= {width}"
    )
    assert page.run("document.documentElement.scrollWidth") <= width
