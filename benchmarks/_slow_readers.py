"""Memory of a server while many connections ask for reads of 4 MiB and take no reply."""

from _misuse import figures


def measure() -> dict[str, float]:
    """Growth of the server's resident memory in MiB."""
    return figures("slow-readers")
