"""Schema revisions of the compute database, up to the tables of this release."""
import pathlib

from blockattach.compute.store import models
from blockattach.platform.db import migrations

MIGRATIONS = migrations.Migrations(
    pathlib.Path(__file__).parent / 'migrations', 'compute_alembic_version',
    'blockattach-manage compute_db sync', models.metadata,
    last_development=migrations.Version('0002', None))
