"""The drivers of this package prove their contracts."""
