"""What Tempest is given: tests, a group of options and service clients."""
import os
from typing import Any

from oslo_config import cfg
from tempest.test_discover import plugins

from blockattach_tempest_plugin import config
from blockattach_tempest_plugin import services


class BlockattachTempestPlugin(plugins.TempestPlugin):
    """Found by its entry point."""

    def load_tests(self) -> tuple[str, str]:
        """The folder of the tests, and the one that their names begin from."""
        folder = os.path.dirname(os.path.abspath(__file__))
        return os.path.join(folder, 'tests'), os.path.dirname(folder)

    def register_opts(self, conf: cfg.ConfigOpts) -> None:
        """Add the group."""
        conf.register_group(config.GROUP)
        conf.register_opts(config.OPTIONS, config.GROUP)

    def get_opt_lists(self) -> list[tuple[str, list[cfg.Opt]]]:
        """The same for the sample."""
        return [(config.GROUP.name, list(config.OPTIONS))]

    def get_service_clients(self) -> list[dict[str, Any]]:
        """What ``os_primary.blockattach`` offers."""
        return [{'name': 'blockattach', 'service_version': 'blockattach',
                 'module_path': services.__name__, 'client_names': ['AttachmentsClient'],
                 'service': 'block-storage'}]
