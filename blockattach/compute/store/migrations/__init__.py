"""Schema revisions of the compute database (`blockattach.compute.store.models.MIGRATIONS`)."""
