"""Who may: documented rules by noun, the enforcer that decides, the access that hides."""
