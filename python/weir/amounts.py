"""Amounts and moments in the form that people read; amounts of bytes `weir.store.values` reads again."""

_BINARY = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DECIMAL = ("kB", "MB", "GB", "TB", "PB", "EB")


def size_text(count: float) -> str:
    """Write a number of bytes.

    Args:
        count: The number.

    Returns:
        The text, with a binary unit: a KiB is 1,024 bytes.
    """
    return f"{count:.0f} B" if count < 1024 else "{:.1f} {}".format(*_scaled(count, 1024, _BINARY))


def rate_text(bytes_per_second: float) -> str:
    """Write a rate, as vendors state it.

    Args:
        bytes_per_second: The rate.

    Returns:
        The text, with a decimal unit: a kB/s is 1,000 bytes a second.
    """
    if bytes_per_second < 1000:
        return f"{bytes_per_second:.0f} B/s"
    return "{:.4g} {}/s".format(*_scaled(bytes_per_second, 1000, _DECIMAL))


class Quantity(str):
    """A number with its unit, as text; a table aligns it as a number."""


def size(count: float) -> Quantity:
    """Write a number of bytes.

    Args:
        count: The number.

    Returns:
        Text with a binary unit.
    """
    return Quantity(size_text(count))


def seconds(duration: float) -> Quantity:
    """Write a duration.

    Returns:
        Text with a fitting unit.
    """
    if duration < 1e-3:
        return Quantity(f"{duration * 1e6:.0f} us")
    if duration < 1:
        return Quantity(f"{duration * 1e3:.1f} ms")
    return Quantity(f"{duration:.1f} s")


def share(fraction: float) -> Quantity:
    """Write a share of the whole.

    Args:
        fraction: The share, from 0 to 1.

    Returns:
        The share in percent.
    """
    return Quantity(f"{fraction * 100:.1f}%")


def share_or_dash(fraction: float | None) -> Quantity:
    """Write a share of the whole, or a dash.

    Args:
        fraction: The share, from 0 to 1; None where there is none.

    Returns:
        The share in percent, or a dash.
    """
    return Quantity("-") if fraction is None else share(fraction)


def _scaled(count: float, base: int, units: tuple[str, ...]) -> tuple[float, str]:
    """The number in the largest unit in which it is 1 or more."""
    for unit in units[:-1]:
        count /= base
        if count < base:
            return count, unit
    return count / base, units[-1]


def clock_time(unix_seconds: float) -> str:
    """Spell a moment by the clock of this machine, such as `2026-11-30 14:02:05`."""
    # Commands that show no moment start without it.
    from datetime import datetime

    return datetime.fromtimestamp(unix_seconds).strftime("%Y-%m-%d %H:%M:%S")
