"""Schema revisions of the block storage database, applied by
`blockattach.storage.db.schema`.
"""
