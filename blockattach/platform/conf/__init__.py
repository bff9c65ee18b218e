"""Option groups that every service has.

`blockattach.storage.conf` describes how to write a group.
"""
