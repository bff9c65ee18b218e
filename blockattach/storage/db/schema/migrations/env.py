"""Run by alembic."""
from blockattach.platform.db import environment
from blockattach.storage.db import models

environment.run(models.metadata)
