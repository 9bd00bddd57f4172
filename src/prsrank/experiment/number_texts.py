"""Numbers as the text of an experiment's report writes them."""


def p_text(value: float) -> str:
    """Return a p value in text.

    >>> p_text(0.0312), p_text(1e-9)
    ('0.031', '< 0.0001')
    """
    return "< 0.0001" if value < 0.0001 else f"{value:.2g}"


def number_text(value: float) -> str:
    """Return a number with four decimals, fewer the larger it is.

    >>> number_text(0.5), number_text(123.456), number_text(12345.6)
    ('0.5000', '123.46', '12,346')
    """
    size = abs(value)
    return f"{value:.4f}" if size < 10 else f"{value:.2f}" if size < 1000 else f"{value:,.0f}"


def signed_text(value: float) -> str:
    """Return a difference, with its sign.

    >>> signed_text(0.01234), signed_text(-1234.5)
    ('+0.0123', '-1,234')
    """
    return f"{'-' if value < 0 else '+'}{number_text(abs(value))}"
