"""Running flows."""
