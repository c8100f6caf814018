"""`weir bench`: the published experiments, run on this machine."""
