"""Names and values as SQL writes them: the only way a user's text gets into a query."""


def quoted_name(name: str) -> str:
    """Return the name of a column as an identifier of SQL.

    >>> quoted_name('a "b')
    '"a ""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def quoted_text(value: str) -> str:
    """Return a string as a literal of SQL.

    >>> quoted_text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"
