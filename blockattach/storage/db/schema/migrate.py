"""The revisions of the database of block storage: they bring it to the tables of this release."""
import pathlib

from blockattach.platform.db import migrations

EXPAND, CONTRACT = migrations.EXPAND, migrations.CONTRACT

MIGRATIONS = migrations.Migrations(
    pathlib.Path(__file__).parent / 'migrations', 'alembic_version', 'blockattach-manage db sync')

upgrade, expand, contract = MIGRATIONS.upgrade, MIGRATIONS.expand, MIGRATIONS.contract
check, version, expected = MIGRATIONS.check, MIGRATIONS.version, MIGRATIONS.expected
scripts, sql = MIGRATIONS.scripts, MIGRATIONS.sql
