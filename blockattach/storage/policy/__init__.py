"""Policy: documented rules by noun, and access to objects by them."""
