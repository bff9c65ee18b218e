"""Alembic revisions of the block storage database, run by `blockattach.storage.db.schema`."""
