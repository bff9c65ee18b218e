"""Failures of servers and processes while clients attach and detach.

All responses must be true, no request may wait for ever, and nothing may be left over.
"""
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from lab.system import attach_cycles
from lab.system import fault_clouds

REPAIR_SECONDS = 180
"""Seconds, longer than the deadline of work with an unknown outcome and two repair passes."""


class FaultsTestCase(fault_clouds.FaultCloudTestCase):

    def setUp(self):
        super().setUp()
        status, _ = self.api.ask('POST', '/types', {'volume_type': {
            'name': 'shared', 'extra_specs': {'multiattach': '<is> True'}}})
        self.assertEqual(200, status)
        shared = self.a_volume(self.api, volume_type='shared')
        self.volumes = [*(self.a_volume(self.api) for _ in range(attach_cycles.THREADS)), shared]
        self.steady = dict(map(self.attached, (self.a_volume(self.api), shared)))

    def attached(self, volume_id):
        """Attach a volume permanently, and return the id of the attachment and the initiator."""
        connector = base.connector('steady')
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance('steady'),
            'connector': connector}})
        self.assertEqual(200, status, made)
        made = made['attachment']['id']
        self.assertEqual(204, self.api.ask('POST', f'/attachments/{made}/action',
                                           {'os-complete': None})[0])
        return made, connector['initiator']

    def survive(self, total, *faults):
        """Run attach cycles, and cause each fault after an equal part of the cycles.

        At the end everything must be consistent, and the processes must stop cleanly.
        """
        cycles = attach_cycles.Cycles(self.cloud.endpoints, self.volumes, total)
        cycles.start()
        try:
            for number, fault in enumerate(faults, 1):
                cycles.wait_for(total * number // (len(faults) + 1))
                fault()
        finally:
            cycles.join()
        print(f'{self.id()}: repeated requests by status: {dict(cycles.statuses)}')
        self.assertEqual(([], total), (cycles.failures, cycles.done))
        self.cloud.wait_ready(fault_clouds.PROCESSES)
        base.wait_for(lambda: not self.left_over(self.steady), REPAIR_SECONDS)
        self.assertEqual([], self.left_over(self.steady))
        self.assertEqual(dict.fromkeys(fault_clouds.PROCESSES, 0), self.cloud.stop())

    def restart_broker(self):
        self.cloud.broker.stop()
        self.cloud.broker.start()

    def restart_database(self):
        self.cloud.database.stop()
        self.cloud.database.start()

    def kill_manager(self):
        self.cloud.kill('volume-1')
        self.cloud.begin('volume-1')

    def kill_api(self):
        self.cloud.kill('api-1')
        self.cloud.begin('api-1')


class CloudFaultsTest(FaultsTestCase):

    def test_everything_dies_one_by_one(self):
        self.survive(200, self.restart_broker, self.restart_database, self.kill_manager,
                     self.kill_api)


class PostgresqlFaultsTest(FaultsTestCase):

    DATABASE = servers.PostgreSQL

    def test_the_database_is_restarted(self):
        self.survive(40, self.restart_database)
