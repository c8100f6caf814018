"""How much each job is slowed by others, predicted window by window."""
