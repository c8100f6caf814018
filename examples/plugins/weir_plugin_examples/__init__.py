"""Algorithms of one's own for Weir: one plug-in of each kind."""
