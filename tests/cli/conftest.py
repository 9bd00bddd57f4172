"""The command line, called in this process."""

import pytest

from prsrank.cli import run


@pytest.fixture
def prsrank(capsys):
    """Call with arguments; returns exit code, standard output and standard error."""

    def call(*arguments):
        code = run([str(a) for a in arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return call
