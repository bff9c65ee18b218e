"""One file per revision under ``versions``, run by `blockattach.compute.store.schema`."""
