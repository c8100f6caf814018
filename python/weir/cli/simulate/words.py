"""Figures of simulated runs in the cells of tables."""

from weir.cli.output import Quantity, size


def factor(value: float | None) -> Quantity:
    """Write a factor.

    Args:
        value: The factor; None where there is none.

    Returns:
        The factor with two digits behind the point, or a dash.
    """
    return Quantity("-" if value is None else f"{value:.2f}")


def rate(value: float | None) -> Quantity:
    """Write bytes a second.

    Args:
        value: The rate; None where there is none.

    Returns:
        The rate, or a dash.
    """
    return Quantity("-") if value is None else size(value)
