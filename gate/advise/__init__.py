"""What to measure, and what would follow from other bounds; it changes no verdict."""
