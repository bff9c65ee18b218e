"""Construction of each process from its components. Business logic is in other packages."""
