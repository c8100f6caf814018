"""Options whose value is an amount of bytes."""

import re

import click

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?B|)(?:/s)?")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_amount(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Read an amount of bytes: `1M` and `1MiB` are 2^20, `1MB` is 10^6, and `/s` may follow.

    Args:
        context: Click's context, for the error.
        parameter: Click's parameter, for the error.
        text: Value of the option; None where it is not given.

    Returns:
        The amount in bytes; None where the option is not given.

    Raises:
        click.BadParameter: The text is no amount.
    """
    if text is None:
        return None
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        message = f"`{text}` is no amount of bytes; write it as in 64k, 1.5M, 100MB or 2GiB"
        raise click.BadParameter(message, context, parameter)
    number, prefix, unit = found.groups()
    base = 1000 if unit == "B" and prefix else 1024
    return int(float(number) * base ** _POWERS[prefix.upper()])
