"""Placement: where the stripes of the files of the next run are to lie, and how that is told."""
