"""The error that a user's input can cause."""


class InputError(ValueError):
    """Bad input: the message is one line that says what is wrong and where.

    The command line prints it and exits with code 2.
    """


class DataWarning(UserWarning):
    """Input that can be used, with a reservation that the message names."""
