"""Policy: the enforcer, what a rule is, and files of rules."""
