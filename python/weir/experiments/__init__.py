"""The experiments that were published with the systems Weir is built from, run on this machine."""
