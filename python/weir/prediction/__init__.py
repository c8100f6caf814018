"""Predictions of the files that a program's next run will create, from its past runs."""
