"""``blockattach-manage service``: the list of services, and removal of services."""
from oslo_config import cfg

from blockattach.cmd import manage_db
from blockattach.platform.conf import service
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import pools
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.wiring import dependencies

_WORD = {True: 'up', False: 'down'}


def print_all(conf: cfg.ConfigOpts) -> None:
    """Print all services that have sent a heartbeat and have not been removed."""
    database = dependencies.open_database(conf)
    down_after = service.settings(conf).service_down_time
    found, living = services.list_all(database, down_after), pools.living(database, down_after)
    manage_db.print_table(
        ('BINARY', 'HOST', 'CLUSTER', 'ZONE', 'STATUS', 'STATE', 'BACKEND STATE',
         'LAST HEARTBEAT', 'REASON'),
        [(one.binary, one.host, one.cluster or '', one.availability_zone,
          'disabled' if one.disabled else 'frozen' if one.frozen else 'enabled',
          _WORD[one.up], _WORD[one.backend in living] if one.binary == binaries.VOLUME else '',
          f'{one.updated_at:%Y-%m-%d %H:%M:%S}', one.disabled_reason or '') for one in found])


def remove(conf: cfg.ConfigOpts) -> None:
    """Remove the service that the arguments name."""
    forget(dependencies.open_database(conf), conf.noun.binary, conf.noun.host,
           service.settings(conf).service_down_time)


def forget(database: storage_db.Database, binary: str, host: str, down_after: float) -> None:
    """Remove a service, and its pools unless other services manage the same pools.

    Pools with volumes are kept. The pools are removed first, so that a repeated call after an
    interruption still finds the service.

    :param down_after: seconds without a heartbeat after which a service is down
    :raises ServiceNotFound: no service has this binary and host
    :raises Conflict: the service is up
    """
    known = services.get_by_host(database, binary, host, down_after)
    keeping = services.keeping(database, binary, known.backend, down_after)
    if not known.up and not [one for one in keeping if one.id != known.id]:
        pools.forget(database, known.backend)
    services.remove(database, binary, host, down_after)
