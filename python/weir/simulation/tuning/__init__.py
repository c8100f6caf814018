"""Self-tuning: settings of a store found by simulated runs, and judged on runs that the search never saw."""
