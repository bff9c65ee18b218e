"""Run by alembic."""
from blockattach.compute.store import models
from blockattach.platform.db import environment

environment.run(models.metadata)
