"""Runs of programs: which files they made, how large, and by whom."""
