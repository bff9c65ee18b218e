"""Connections, transactions, retries, and the time of the database."""
