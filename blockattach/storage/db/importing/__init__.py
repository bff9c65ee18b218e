"""Import of a Cinder database."""
