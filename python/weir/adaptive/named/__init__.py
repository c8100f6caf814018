"""Streams of named variables: dimensions, coordinates, attributes, packing and units stay with the values.

A dataset has streams of its large variables, each with a tolerance of its own, below the folders of the tiers. What is
small, and what describes the cells, is exact: a record for each step, written last, makes the step visible.
"""

from weir.adaptive.named.dataset import Dataset, Variable
from weir.adaptive.named.reader import DatasetReader, Reading
from weir.adaptive.named.writer import DatasetWriter

__all__ = ["Dataset", "DatasetReader", "DatasetWriter", "Reading", "Variable"]
