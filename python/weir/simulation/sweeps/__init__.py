"""Sweeps: one scenario over many settings, on all cores or on a cluster, in a ledger that a second run continues."""
