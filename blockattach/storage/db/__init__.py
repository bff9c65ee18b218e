"""Database of block storage: queries and state changes, one module for each kind of resource."""
