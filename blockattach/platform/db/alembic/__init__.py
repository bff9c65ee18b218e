"""Alembic script folder shared by all databases. The revisions are in folders of the packages."""
