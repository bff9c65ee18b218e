"""Schema migrations of the block storage database, from an empty database to this release."""
import pathlib

from blockattach.platform.db import migrations
from blockattach.storage.db import models

EXPAND, CONTRACT = migrations.EXPAND, migrations.CONTRACT

MIGRATIONS = migrations.Migrations(
    pathlib.Path(__file__).parent / 'migrations', 'alembic_version', 'blockattach-manage db sync',
    models.metadata, last_development=migrations.Version('0005', 'c0001'))

upgrade, expand, contract = MIGRATIONS.upgrade, MIGRATIONS.expand, MIGRATIONS.contract
check, version, expected = MIGRATIONS.check, MIGRATIONS.version, MIGRATIONS.expected
scripts, sql = MIGRATIONS.scripts, MIGRATIONS.sql
