"""Policy: documented rules by noun, the enforcer that decides, and access to objects by it."""
