"""Database checks of ``blockattach-status upgrade check``, and the class of an installation."""
import os

import sqlalchemy as sa
from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform import secrets
from blockattach.platform.conf import core as core_conf
from blockattach.storage.db import schema as db_schema
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import key_rotation
from blockattach.storage.db.schema import online_migrations
from blockattach.storage.db.services import services as db_services
from blockattach.wiring import compute_store
from blockattach.wiring import dependencies

Code = upgradecheck.Code
Result = upgradecheck.Result

# The character set utf8 of MySQL and MariaDB stores at most three bytes per character.
_TEXT = 'utf8mb4'


class Installation(upgradecheck.UpgradeCommands):
    """Installation to check, with its configuration and database.

    oslo.upgradecheck passes the installation to each check.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """
        :raises ConfigurationError: the database cannot be opened
        """
        self.conf = conf
        self.core = core_conf.settings(conf)
        self.engine = dependencies.open_engine(conf)
        self.found = db_schema.version(self.engine)
        self.expected = db_schema.expected()
        # Without keys, because only `keys` needs them, and reports if they are missing.
        self.database = storage_db.Database(self.engine, secrets.Sealer([]), clock.Clock())

    @property
    def expanded(self) -> bool:
        """True if the schema has been expanded to this release."""
        return self.found.expand == self.expected.expand

    def behind(self) -> list[str]:
        """Return the services of older releases that are up."""
        return db_services.of_releases(self.database, *dependencies.older(self.conf))


def ok() -> Result:
    """Return the result of a successful check."""
    return Result(Code.SUCCESS)


def _later() -> Result:
    return Result(Code.WARNING, 'This check requires the expanded schema.')


def schema(at: Installation) -> Result:
    """Check that the schema has been expanded to this release, and not to a newer release."""
    if at.expanded:
        return ok()
    if at.found.expand is not None and at.found.expand > (at.expected.expand or ''):
        return Result(Code.FAILURE, f'The database is at revision {at.found.expand} of a newer '
                                    f'release. The latest revision of this release is '
                                    f'{at.expected.expand}.')
    return Result(Code.FAILURE, f'The database is at revision {at.found.expand}, but this release '
                                f'requires {at.expected.expand}. Run blockattach-manage db sync '
                                '--expand before the first process of this release starts.')


def schema_of_servers(at: Installation) -> Result:
    """Check that a configured compute database has the tables of this release."""
    try:
        compute_store.check(at.conf)
    except errors.ConfigurationError as exc:
        return Result(Code.FAILURE, f'{exc}.')
    return ok()


def text(at: Installation) -> Result:
    """Check that the character set of the database can store all of Unicode."""
    kind = at.engine.dialect.name
    with at.engine.connect() as connection:
        if kind == 'postgresql':
            found = str(connection.scalar(sa.text('SHOW server_encoding')))
            return ok() if found == 'UTF8' else Result(
                Code.WARNING, f'The database encoding is {found}. Create a database with UTF8.')
        if kind != 'mysql':
            return ok()
        others = connection.execute(sa.text(
            'SELECT table_name, table_collation FROM information_schema.tables '
            "WHERE table_schema = DATABASE() AND table_name <> 'alembic_version' "
            'ORDER BY table_name')).all()
    wrong = [name for name, collation in others if not str(collation).startswith(_TEXT)]
    return Result(Code.WARNING, f'Tables do not use {_TEXT}: {", ".join(wrong)}. Convert them '
                                'with ALTER TABLE ... CONVERT TO.') if wrong else ok()


def rows(at: Installation) -> Result:
    """Check that the online data migrations have converted all rows."""
    if not at.expanded:
        return _later()
    left = online_migrations.remaining(at.database)
    listed = ', '.join(f'{number} for {name}' for name, number in left.items())
    return Result(Code.WARNING, f'Rows must be migrated: {listed}. Run blockattach-manage '
                                'db online_data_migrations.') if left else ok()


def services(at: Installation) -> Result:
    """Check that no services of an older release are running.

    The check succeeds if the schema has not been expanded to this release.
    """
    behind = at.behind() if at.expanded else []
    return Result(Code.WARNING, f'Services of an older release: {", ".join(behind)}. Upgrade '
                                'them, and the API processes, which are not in the list of '
                                'services.'
                  ) if behind else ok()


def contraction(at: Installation) -> Result:
    """Check that the schema is contracted, which removes the parts for older releases."""
    if not at.expanded or at.found.contract == at.expected.contract:
        return ok() if at.expanded else _later()
    return Result(Code.WARNING, 'The schema is not contracted. Run blockattach-manage db sync '
                                '--contract when the last process of an older release has '
                                'stopped.')


def keys(at: Installation) -> Result:
    """Check that all sealed credentials can be decrypted."""
    if not at.expanded:
        return _later()
    if not at.core.seal_key_ids and not os.path.exists(at.core.seal_key_file):
        return Result(Code.FAILURE, f'{at.core.seal_key_file} does not exist. Copy the file '
                                    'from a host that has it.'
                      ) if key_rotation.counts(at.database) else ok()
    sealer = dependencies.open_sealer(at.conf, at.core, at.engine)
    try:
        key_rotation.check(storage_db.Database(at.engine, sealer, at.database.clock))
    except errors.ConfigurationError as exc:
        return Result(Code.FAILURE, f'{exc}. See blockattach-manage secrets check.')
    return ok()
