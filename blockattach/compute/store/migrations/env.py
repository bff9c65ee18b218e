"""Run by alembic."""
from blockattach.compute.store import models
from blockattach.db.engine import environment

environment.run(models.metadata)
