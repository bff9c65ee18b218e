"""Alembic environment of the compute database."""
from blockattach.compute.store import models
from blockattach.platform.db import environment

environment.run(models.metadata)
