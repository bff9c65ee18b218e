"""Database of block storage: queries and state changes of each kind of resource."""
