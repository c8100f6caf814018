"""Runs of programs: their files, the files' sizes, and the ranks that made them."""
