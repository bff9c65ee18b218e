"""Migrations: one file per revision under ``versions``, run by `blockattach.db.schema.migrate`."""
