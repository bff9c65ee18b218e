"""Database of block storage, and the decorator `retried` for functions that write to it."""
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

import sqlalchemy as sa

from blockattach.platform import clock
from blockattach.platform import secrets
from blockattach.platform.conf import database as database_conf
from blockattach.platform.db import clock as db_clock
from blockattach.platform.db import engine as engines
from blockattach.platform.db.engine import Happened as Happened
from blockattach.platform.db.engine import inserted as inserted
from blockattach.platform.db.engine import retried as retried
from blockattach.platform.telemetry import acts
from blockattach.storage.conf import quota as quota_conf
from blockattach.storage.db import models


class Database(engines.Database):
    """Database of block storage, with the settings that its queries and transactions need."""

    def __init__(self, engine: sa.Engine, sealer: secrets.Sealer, clock: clock.Clock,
                 quota: quota_conf.QuotaSettings = quota_conf.NONE,
                 telemetry: acts.Telemetry | None = None,
                 readers: sa.Engine | None = None,
                 history_days: int = database_conf.HISTORY_DAYS) -> None:
        """
        :param sealer: encrypts and decrypts the credentials of grants
        :param quota: default limits of projects, and options of quotas
        :param readers: see `blockattach.platform.db.engine.Database`
        :param history_days: days for which events of attachments are kept; 0 to record no events
        """
        super().__init__(engine, clock, telemetry, readers, _probe_write)
        self.sealer = sealer
        self.quota = quota
        self.history_days = history_days
        self.limit_source: Callable[[str], Mapping[str, int]] | None = None
        """Function that returns the limits of a project by name from Keystone.

        None if the limits are stored in this database.
        """
        self.counted: dict[tuple[str, str], tuple[int, Iterator[bool]]] = {}
        """Usage by project and quota key, as last counted by `blockattach.storage.db.quotas`.

        The iterator yields True for each addition that is allowed without another count.
        """


def _probe_write(connection: sa.Connection) -> None:
    # The probe inserts a lease, because the table has no foreign key. The volume id is random, so
    # that the row conflicts with no other lease.
    volume_id = str(uuid.uuid4())
    table = models.leases
    connection.execute(table.insert().values(
        volume_id=volume_id, initiator='', owner='', deadline=db_clock.now()))
    connection.execute(table.delete().where(table.c.volume_id == volume_id))
