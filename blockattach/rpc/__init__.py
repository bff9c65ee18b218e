"""The bus: every interface between processes, its client, its history, and what carries it."""
