"""The history of a store: what its servers knew each second, kept for weeks in bounded space.

`recorder` reads the control API, `samples` makes rows of the answers, `database` keeps them in one SQLite file and lets
them grow coarser with age, and `reading` looks at a stretch of time. `counterfactual` replays the jobs of a stretch
under another policy, by the demand that `demand` finds in it.
"""
