"""The guard: it protects jobs that others slow, by leases of the sharing, and undoes what it did.

`decisions` decides by what `observations` says about a window, and does nothing itself. `watch` reads the windows of a
store, and acts. Every action is a line of the journal.
"""
