"""Weir: a burst buffer in user space that divides its I/O time among jobs by policy."""
