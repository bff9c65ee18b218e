"""Public names for drivers of vendors."""
