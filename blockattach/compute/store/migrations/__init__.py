"""Schema revisions of the compute database, applied by `blockattach.compute.store.models`."""
