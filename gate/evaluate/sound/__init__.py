"""Was the benchmark what it says: notes, and doubts that take a PASS back."""
