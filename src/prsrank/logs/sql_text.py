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


def numbers_sql(last: int, name: str) -> str:
    """Return the SQL of a table of the numbers 1 to `last`, given its name and column.

    >>> numbers_sql(3, "r(k)")
    '(VALUES (1), (2), (3)) r(k)'
    """
    return f"(VALUES {', '.join(f'({i})' for i in range(1, last + 1))}) {name}"
