"""The installation that ``blockattach-status upgrade check`` checks."""
from oslo_config import cfg

from blockattach import clock
from blockattach import secrets
from blockattach.conf import core as core_conf
from blockattach.conf import service as service_conf
from blockattach.db import engine
from blockattach.db import migrate
from blockattach.db import services
from blockattach.rpc import history
from blockattach.wiring import dependencies


class Installation:
    """A configuration, and the database that it names."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """
        :raises ConfigurationError: there is no such database
        """
        self.conf = conf
        self.core = core_conf.settings(conf)
        self.engine = dependencies.open_engine(conf, self.core)
        self.found = migrate.version(self.engine)
        self.expected = migrate.expected()
        self.database = engine.Database(self.engine, secrets.Sealer([]), clock.Clock())

    @property
    def expanded(self) -> bool:
        """Whether the tables are those of this release."""
        return self.found.expand == self.expected.expand

    def behind(self) -> list[str]:
        """Services of older releases that are up."""
        return services.of_releases(
            self.database, service_conf.settings(self.conf).service_down_time,
            [release.name for release in history.RELEASES[:-1]])

    def close(self) -> None:
        """Give back connections."""
        self.database.close()
