"""Nova: the client of its Compute API."""
