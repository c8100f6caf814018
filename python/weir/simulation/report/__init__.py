"""One page about simulated runs: figures, a sentence and a table for each, and nothing from elsewhere."""
