"""Pairwise runs of the classes' representatives, from which interference factors come (LuxIO, section III-D)."""
