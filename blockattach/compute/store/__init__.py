"""The database of the consumer: servers, their volumes, acts, agents. SQL stays in here."""
