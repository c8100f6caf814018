"""Amounts of bytes in the form that people read, and that `weir.store.values` reads again."""

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


def _scaled(count: float, base: int, units: tuple[str, ...]) -> tuple[float, str]:
    """The number in the largest unit in which it is 1 or more."""
    for unit in units[:-1]:
        count /= base
        if count < base:
            return count, unit
    return count / base, units[-1]
