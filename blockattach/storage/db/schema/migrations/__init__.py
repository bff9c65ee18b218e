"""Migrations: one file per revision under ``versions``, run by
`blockattach.storage.db.schema.migrate`.
"""
