"""Block Storage API: the table of operations and the resources."""
