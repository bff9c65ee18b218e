"""Ports of the metrics, which do not depend on the order in which processes start."""
import unittest

from oslo_config import cfg

from blockattach.platform.conf import telemetry
from blockattach.wiring import options


class PortsTest(unittest.TestCase):

    def ports(self, process, port=9400, number=16):
        conf = cfg.ConfigOpts()
        options.register(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        conf.set_override('port', port, group='metrics')
        conf.set_override('port_range', number, group='metrics')
        return list(telemetry.metrics_settings(conf, process).ports)

    def test_each_process_kind_has_own_port(self):
        for process, port in (('blockattach-all', 9400), ('blockattach-api', 9400),
                              ('blockattach-control', 9401), ('blockattach-scheduler', 9402),
                              ('blockattach-volume', 9403)):
            with self.subTest(process):
                self.assertEqual([port, 9404, 9405], self.ports(process)[:3])

    def test_each_port_of_range_tried_once(self):
        for number in (1, 2, 3, 4, 5, 16):
            for process in ('blockattach-api', 'blockattach-volume', 'other'):
                with self.subTest(number=number, process=process):
                    self.assertEqual(list(range(9400, 9400 + number)),
                                     sorted(self.ports(process, number=number)))

    def test_ports_of_other_kinds_tried_last(self):
        self.assertEqual([9401, 9404, 9405, 9400, 9402, 9403],
                         self.ports('blockattach-control', number=6))

    def test_port_zero_disables_and_last_port_ends_range(self):
        self.assertEqual([], self.ports('blockattach-api', port=0))
        self.assertEqual([65535], self.ports('blockattach-volume', port=65535))
