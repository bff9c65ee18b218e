"""Defaults of the group ``[volume]``."""
import unittest

from oslo_config import cfg

from blockattach.storage.conf import volume

PROMISED_SECONDS = 10


class DefaultsTest(unittest.TestCase):

    def test_default_reconcile_interval_within_promise(self):
        conf = cfg.ConfigOpts()
        conf.register_opts(volume.OPTS, group=volume.GROUP)
        conf([], default_config_files=[], default_config_dirs=[])
        # What is offered to nobody is seen twice before it is believed.
        self.assertLessEqual(2 * volume.settings(conf).reconcile_seconds, PROMISED_SECONDS)
