"""Option groups that any service has; `blockattach.storage.conf` describes how to write them."""
