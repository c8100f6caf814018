"""Suites that others wrote, run on the store and on tmpfs, and compared test by test: `make suites`."""
