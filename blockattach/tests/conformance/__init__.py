"""The drivers of this package, held to their contracts."""
