"""A job's writes beside 300 connections that announce 4 MiB and send nothing."""

from _misuse import figures


def measure() -> dict[str, float]:
    """The writes of a job of 64 nodes beside them over the same alone: a number near 1, and at least its share."""
    return figures("stalled-senders")
