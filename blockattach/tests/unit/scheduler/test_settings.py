"""Settings of the groups ``[scheduler]`` and ``[service]``."""
import tempfile
import unittest

from oslo_config import cfg

from blockattach.platform.conf import service
from blockattach.storage.conf import scheduler
from blockattach.storage.domain import placement
from blockattach.storage.scheduler import plugins


class SettingsTest(unittest.TestCase):
    def read(self, group, text=''):
        with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
            file.write(text)
            file.flush()
            conf = cfg.ConfigOpts()
            conf.register_opts(group.OPTS, group=group.GROUP)
            conf([], project='blockattach', default_config_files=[file.name])
            return group.settings(conf)

    def test_default_filters_and_weighers_loadable(self):
        found = self.read(scheduler)
        self.assertEqual(scheduler.SchedulerSettings(), found)
        self.assertEqual(list(placement.FILTERS), list(plugins.load_filters(found.filters)))
        self.assertEqual([1.0], [one.multiplier for one in plugins.load_weighers(found.weighers)])

    def test_filter_order_and_weigher_multipliers_read(self):
        found = self.read(scheduler, '[scheduler]\n'
                          'scheduler_default_filters = capacity, alive\n'
                          'scheduler_default_weighers = free_space:0.5,allocated:-2\n'
                          'scheduler_max_attempts = 5\n')
        self.assertEqual((('capacity', 'alive'), {'free_space': 0.5, 'allocated': -2.0}, 5),
                         (found.filters, dict(found.weighers), found.max_attempts))

    def test_host_has_default_name(self):
        self.assertTrue(self.read(service).host)
        found = self.read(service, '[service]\nhost = my_host\nreport_interval = 3700\n'
                          'service_down_time = 7200\n')
        self.assertEqual(('my_host', 3700, 7200),
                         (found.host, found.report_interval, found.service_down_time))

    def test_host_with_at_sign_rejected(self):
        with self.assertRaises(cfg.ConfigFileValueError):
            self.read(service, '[service]\nhost = a@b\n')
