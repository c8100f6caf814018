"""Placement: targets for the stripes of the next run's files, and the forms of this decision."""
