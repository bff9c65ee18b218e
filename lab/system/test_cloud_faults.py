"""Servers and processes die while a client attaches and detaches: no answer is untrue, nothing
waits for ever, and nothing is left.
"""
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from lab.system import attach_cycles
from lab.system import fault_clouds

REPAIR_SECONDS = 180
"""More than the deadline behind what nobody knows the end of, and two looks at it."""


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
        """The id and the initiator of an attachment that is there all the time."""
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
        """Let a client go through so many cycles, and make each fault when it has done its part
        of them.
        """
        cycles = attach_cycles.Cycles(self.cloud.endpoints, self.volumes, total)
        cycles.start()
        try:
            for number, fault in enumerate(faults, 1):
                cycles.wait_for(total * number // (len(faults) + 1))
                fault()
        finally:
            cycles.join()
        print(f'{self.id()}: answered to repeat, by status: {dict(cycles.statuses)}')
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
