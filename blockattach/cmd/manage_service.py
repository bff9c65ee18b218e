"""``blockattach-manage service``."""
from oslo_config import cfg

from blockattach.cmd import manage_db
from blockattach.conf import service
from blockattach.db import pools
from blockattach.db import services


def print_all(conf: cfg.ConfigOpts) -> None:
    """Print every service that has reported itself."""
    found = services.list_all(manage_db.open_database(conf),
                              service.settings(conf).service_down_time)
    manage_db.print_table(
        ('BINARY', 'HOST', 'ZONE', 'STATUS', 'STATE', 'LAST SIGN OF LIFE', 'REASON'),
        [(one.binary, one.host, one.availability_zone,
          'disabled' if one.disabled else 'enabled', 'up' if one.up else 'down',
          f'{one.updated_at:%Y-%m-%d %H:%M:%S}', one.disabled_reason or '') for one in found])


def remove(conf: cfg.ConfigOpts) -> None:
    """Forget a service, and its pools."""
    database = manage_db.open_database(conf)
    services.remove(database, conf.noun.binary, conf.noun.host,
                    service.settings(conf).service_down_time)
    pools.forget(database, conf.noun.host)
