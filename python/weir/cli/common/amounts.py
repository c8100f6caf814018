"""Options whose value is an amount of bytes."""

import click


def parse_amount(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Read an amount of bytes, or of bytes a second.

    Args:
        context: Click's context, for the error.
        parameter: Click's parameter, for the error.
        text: Value of the option, as `weir.store.values.size` reads it, with or without `/s`; None where it is not
            given.

    Returns:
        The amount in bytes; None where the option is not given.

    Raises:
        click.BadParameter: The text is no amount.
    """
    from weir.store.values import size

    try:
        return None if text is None else size(text.strip().removesuffix("/s"))
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None
