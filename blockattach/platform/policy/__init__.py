"""Policy: the enforcer, the definition of rules, and policy files."""
