"""The error that a user's input can cause."""

import difflib
from collections.abc import Iterable

GAPS_FILLED = (
    "(prsrank.covering, or an estimate fitted to a shape, monotone or power, gives every position "
    "a propensity)"
)
"""What a message about a click at propensity 0 ends with."""


class InputError(ValueError):
    """Bad input: the message is one line that says what is wrong and where.

    The command line prints it and exits with code 2.
    """


class DataWarning(UserWarning):
    """Input that can be used, with a reservation that the message names."""


def nearest_name(name: str, choices: Iterable[str]) -> str:
    """Return the end of a message about a name that is not known.

    >>> nearest_name("prz", ["ips", "prs"])
    ": did you mean 'prs'? There are ips, prs"
    """
    names = list(choices)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    return f": did you mean '{near[0]}'? There are {', '.join(names)}" if near else ""


def shortened(text: object, most: int = 80) -> str:
    """Return the words of something, cut where they are long: an id may be.

    >>> shortened("a" * 100, most=4)
    'aaaa... (100 characters)'
    """
    words = str(text)
    return words if len(words) <= most else f"{words[:most]}... ({len(words):,} characters)"


def escaped(text: str) -> str:
    r"""Return a text with its control characters spelled out: a terminal would obey them.

    >>> print(escaped("a\x1b[31mb"))
    a\x1b[31mb
    """
    return "".join(
        letter
        if letter.isprintable() or letter == "\n"
        else letter.encode("unicode_escape").decode()
        for letter in text
    )
