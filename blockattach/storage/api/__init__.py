"""Block Storage API: its resources, and the table of all operations."""
