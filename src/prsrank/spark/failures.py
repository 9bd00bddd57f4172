"""What Spark says when something goes wrong, in one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from prsrank.errors import InputError

_OWN_ERROR = re.compile(r"^(?!org\.|java\.)[A-Za-z_][\w.]*(Error|Exception): .*$", re.MULTILINE)
_INPUT_ERROR = f"{InputError.__module__}.{InputError.__name__}: "
_MARKS = (
    "Most recent failure reason: ",
    "Most recent failure: ",
    "aborted due to stage failure: ",
)


class SparkFailure(InputError):
    """A stage was lost to the cluster, not to the input; the message is one line."""


@contextmanager
def stage_errors(step: str) -> Iterator[None]:
    """Say in one line why stages of Spark failed: what a task found wrong, or how it was lost."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        reason = reason_of(error)
        if reason.startswith(_INPUT_ERROR):
            raise InputError(reason.removeprefix(_INPUT_ERROR)) from error
        raise SparkFailure(f"{step} on Spark failed: {reason}") from error


def reason_of(error: BaseException) -> str:
    r"""Return one line that says why a stage of Spark failed: a task's own error, if it says.

    >>> reason_of(ValueError("Job aborted. Traceback:\nMemoryError: no room\n\n\tat org.apache"))
    'MemoryError: no room'
    """
    text = str(error)
    own_errors = [match.group() for match in _OWN_ERROR.finditer(text)]
    if own_errors:
        return own_errors[-1]
    for mark in _MARKS:
        if mark in text:
            return text.split(mark, 1)[1].splitlines()[0].strip()
    return first_line(error)


@contextmanager
def spark_errors(name: str) -> Iterator[None]:
    """Turn an error of Spark about `name` into an InputError of one line."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise InputError(f"{name}: cannot be read: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without Spark's name for the error.

    >>> first_line(ValueError("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03"))
    'Path does not exist: x.'
    """
    text = str(error).strip().splitlines() or [type(error).__name__]
    line = text[0].split("SQLSTATE")[0].strip()
    return line.split("] ", 1)[1] if line.startswith("[") and "] " in line else line
