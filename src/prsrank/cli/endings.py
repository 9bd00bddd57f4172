"""Signals that end a command: one line, its exit code, and nothing left behind.

Python runs a signal's handler when the main thread is back in Python; a kernel, a query or a
tree of LightGBM may keep it for long. A thread of its own hears of the signal at once, and ends
the process itself where the main thread does not get to it, or where Python drops the exception
that the handler raises, as it does in `__del__` and in callbacks of C.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from prsrank.files.drafts import discard_drafts, discard_scratch

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_PATIENCE = 1.0

received: list[int] = []
"""The signals that have come; what fails after one fails because of it."""


@contextmanager
def prompt_endings() -> Iterator[None]:
    """End the process at SIGINT and SIGTERM, whatever the main thread is doing."""
    heard = threading.Event()

    def handle(number: int, _: FrameType | None) -> None:
        received.append(number)
        heard.set()
        if len(received) == 1:  # a second one must not stop the clearing away
            raise KeyboardInterrupt

    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def unraisable(lost: "sys.UnraisableHookArgs") -> None:
        if lost.exc_type is KeyboardInterrupt:  # Python drops it: as if the signal came again
            os.write(writing, bytes(received[-1:]))
        else:
            sys.__unraisablehook__(lost)

    threading.Thread(target=_watch, args=(reading, heard), daemon=True).start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in WORDS:
        signal.signal(number, handle)
    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        # the command is done, or has been ended: what is left to do is clearing away
        for number in WORDS:
            signal.signal(number, signal.SIG_IGN)


def exit_code() -> int | None:
    """Return the exit code of the signal that came, after clearing away and saying so; or None."""
    if not received:
        return None
    discard_drafts()
    _say(received[0])
    return 128 + received[0]


def _watch(reading: int, heard: threading.Event) -> None:
    came = 0
    while True:
        number = os.read(reading, 1)[0]
        if number not in WORDS:  # of other signals the bytes come here, too
            continue
        came += 1
        # somebody who asks twice does not want to wait for a clean end, only for a safe one
        if came > 1 or not heard.wait(_PATIENCE):
            discard_drafts()
            discard_scratch()
            _say(number)
            os._exit(128 + number)


def _say(number: int) -> None:
    sys.stderr.write(f"prsrank: {WORDS[signal.Signals(number)]}\n")
    sys.stderr.flush()
