"""Run by alembic."""
from blockattach.db import models
from blockattach.db.engine import environment

environment.run(models.metadata)
