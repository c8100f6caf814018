"""The published experiments of the systems that Weir is built from, run on this machine."""
