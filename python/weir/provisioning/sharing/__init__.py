"""Who shares storage with whom, for how long, at which price, and with which slowdown."""
