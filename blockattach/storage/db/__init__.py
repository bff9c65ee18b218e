"""The database: verbs in, typed records out; one module per aggregate."""
