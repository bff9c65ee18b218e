"""Tempest plugin with the tests, their options and a service client."""
import os
from typing import Any

from oslo_config import cfg
from tempest.test_discover import plugins

from blockattach_tempest_plugin import config
from blockattach_tempest_plugin import services


class BlockattachTempestPlugin(plugins.TempestPlugin):
    """Tempest plugin, found by its entry point."""

    def load_tests(self) -> tuple[str, str]:
        """Return the directory of the tests, and the directory from which their names start."""
        folder = os.path.dirname(os.path.abspath(__file__))
        return os.path.join(folder, 'tests'), os.path.dirname(folder)

    def register_opts(self, conf: cfg.ConfigOpts) -> None:
        conf.register_group(config.GROUP)
        conf.register_opts(config.OPTIONS, config.GROUP)

    def get_opt_lists(self) -> list[tuple[str, list[cfg.Opt]]]:
        """Return the options for the sample configuration."""
        return [(config.GROUP.name, list(config.OPTIONS))]

    def get_service_clients(self) -> list[dict[str, Any]]:
        """Return the service client that Tempest offers as ``os_primary.blockattach``."""
        return [{'name': 'blockattach', 'service_version': 'blockattach',
                 'module_path': services.__name__, 'client_names': ['AttachmentsClient'],
                 'service': 'block-storage'}]
