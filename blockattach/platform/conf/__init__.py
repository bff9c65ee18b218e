"""Options that any service has, by group; `blockattach.storage.conf` says how they are written."""
