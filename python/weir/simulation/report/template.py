"""The way from values to a page: its template, and the look of values in tables."""

from typing import Any

from weir.distribution import install_command
from weir.simulation.errors import SimulationError
from weir.simulation.report.section import Cell


def check_libraries() -> None:
    """Check that the libraries are there that make pages.

    Raises:
        SimulationError: A library is not installed.
    """
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise SimulationError(
            f"the page needs the package {error.name}, which is not installed",
            hint=install_command("simulation"),
        ) from error


def rendered(template: str, **values: Any) -> str:
    """Fill a template of this folder.

    Args:
        template: Name of its file.
        values: Its values. Text is escaped, except the figures of sections.

    Returns:
        The page as HTML, which needs nothing from elsewhere and runs no script.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("weir.simulation.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = _cell
    environment.filters["is_number"] = _is_number
    return environment.get_template(template).render(**values)


def _cell(value: Cell) -> str:
    """A value of a table: four digits of a number that is no count."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value


def _is_number(value: Cell) -> bool:
    """Whether a value is a number, a percentage, or a mean with its interval."""
    if not isinstance(value, str):
        return isinstance(value, int | float)
    return value[:1].isdigit() and (value.endswith("%") or " ± " in value or value.replace(".", "").isdigit())
