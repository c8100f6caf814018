"""The page about a job: what it was owed and received, what slowed it, and what to do about it.

`facts` says what may be known of a job. `stored` takes facts from the history of a store, `logged` from Darshan logs,
`traced` and `windowed` from what clients counted. `rules` finds faults in facts; `words` and `page` show them.
"""
