"""Random calls on a store and on tmpfs: every answer and the tree at the end are the same.

`steps.py` makes sequences by a seed, `players.py` carries them out, `law.py` compares and shrinks.
"""
