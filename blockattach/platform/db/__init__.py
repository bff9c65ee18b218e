"""Database access: connections, transactions, retries, and the time of the database."""
