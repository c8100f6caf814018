"""`weir top`: the present work of jobs."""
