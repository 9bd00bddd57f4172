"""Chromium, driven over a pipe by its DevTools protocol."""

import fcntl
import json
import os
import select
import shutil
import signal
import time

import pytest

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


def chromium():
    """Return the program; skips the test where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("needs Chromium (on Debian: apt-get install chromium)")
    return program
