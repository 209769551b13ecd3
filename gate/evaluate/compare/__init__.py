"""A percentile against a baseline: which runs compare, how much it grew, is that too much."""
