"""Alembic revisions of the schema. A revision is never edited after its release."""
