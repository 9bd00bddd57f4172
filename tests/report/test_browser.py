"""The page in a real browser, driven over a pipe by its DevTools protocol."""

import fcntl
import json
import os
import select
import shutil
import signal
import time

import pytest

from prsrank.report.html import write_report

pytestmark = pytest.mark.browser

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe", "--window-size=1280,900",
)  # fmt: skip


class Chromium:
    """One browser with one page; use it as a context manager.

    Messages are JSON ended by a zero byte, read by the browser from descriptor 3 and written
    to descriptor 4. Every event is kept in `events`.
    """

    def __init__(self, program, folder, *, timeout=60):
        self.timeout, self.events, self._number, self._rest = timeout, [], 0, b""
        to_browser, from_browser = _high_pipe(), _high_pipe()
        arguments = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        actions = [
            (os.POSIX_SPAWN_DUP2, to_browser[0], 3),
            (os.POSIX_SPAWN_DUP2, from_browser[1], 4),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        self._process = os.posix_spawn(
            program, arguments, os.environ, file_actions=actions, setsid=True
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        self._write, self._read = to_browser[1], from_browser[0]
        self._session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._write)
        os.close(self._read)

    def call(self, method, **parameters):
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, address):
        """Open a page and wait until its charts are drawn."""
        self.call("Page.navigate", url=address)
        self.wait("document.documentElement?.dataset.drawn")

    def run(self, script):
        """Return the value of an expression of the page."""
        result = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script):
        """Wait until an expression is true; return its value."""
        deadline = time.monotonic() + self.timeout
        while not (value := self.run(script)):
            assert time.monotonic() < deadline, f"never true: {script}"
            time.sleep(0.05)
        return value

    def settle(self):
        """Wait for two frames, so that what was asked for is drawn."""
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")

    def move(self, x, y):
        """Move the pointer, from a little aside, as a hand does."""
        for shift in (6, 3, 0):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x - shift, y=y)
        self.settle()

    def click(self, selector):
        """Click the middle of an element."""
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def press(self, key, text):
        """Press a key of the keyboard."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)
        self.settle()

    def middle(self, selector):
        """Scroll an element into view and return the middle of it."""
        found = json.dumps(selector)
        self.run(
            f"document.querySelector({found}).scrollIntoView({{block: 'center', behavior: 'instant'}})"
        )
        self.settle()
        box = self.run(f"document.querySelector({found}).getBoundingClientRect().toJSON()")
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def size(self, width, height):
        """Give the window another size, as on a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.settle()

    def errors(self):
        """Return what the console, the scripts and the security policy complained about."""
        texts = []
        for event in self.events:
            name, details = event["method"], event["params"]
            if name == "Runtime.exceptionThrown":
                texts.append(details["exceptionDetails"].get("exception", details))
            if name == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning"):
                texts.append(details["args"])
            if name == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
                texts.append(details["entry"]["text"])
        return texts

    def requests(self):
        """Return the addresses that were asked for, `data:` aside."""
        sent = (
            e["params"]["request"]["url"]
            for e in self.events
            if e["method"] == "Network.requestWillBeSent"
        )
        return [address for address in sent if not address.startswith("data:")]

    def _next(self, deadline):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._read, 1 << 16)
            assert piece, "the browser ended"
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message


def _high_pipe():
    """Return the ends of a pipe, out of the way of descriptors 3 and 4."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
    for end in ends:
        os.close(end)
    return high


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("needs Chromium (on Debian: apt-get install chromium)")
    with Chromium(program, tmp_path_factory.mktemp("profile")) as started:
        yield started


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
