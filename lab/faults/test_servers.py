"""Deaths and stops of servers and processes while an operation is under way.

The database and the broker are killed, lose their contents and come back. Processes are stopped.
"""
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from lab.faults import base as faults
from lab.faults import client as clients
from lab.faults import cloud as clouds
from lab.simulation import nouns

# Places within a transaction, after its last statement and before the commit.
IN_TRANSACTION = (
    ('create', clouds.API, 'db.volumes.create/db.engine.before_commit'),
    ('create', clouds.MANAGER, 'db.volumes.created/db.engine.before_commit'),
    ('attach', clouds.API, 'db.attachments.reserve/db.engine.before_commit'),
    ('attach', clouds.MANAGER, 'db.attachments.move/db.engine.before_commit'),
    ('detach', clouds.MANAGER, 'db.attachments.move/db.engine.before_commit'))
# Places at which a request or its answer is on the way.
ON_THE_WAY = (
    ('create', clouds.API, 'rpc.scheduler.place_volume.before_send'),
    ('create', clouds.SCHEDULER, 'rpc.scheduler.place_volume.before_work'),
    ('attach', clouds.API, 'rpc.volume.connect.before_send'),
    ('attach', clouds.MANAGER, 'rpc.volume.connect.before_reply'),
    ('detach', clouds.MANAGER, 'rpc.volume.disconnect.before_work'),
    ('delete', clouds.MANAGER, 'rpc.volume.start_work.before_reply'))


class ServersTestCase(faults.FaultsTestCase):

    def survives(self, cases, fault, words):
        """Stop each process at the place of its case, cause the fault, and resume the process."""
        for name, process, place in cases:
            with self.fault(operation=name, process=process, place=place):
                self.stopped_at(nouns.named(name), process, place, fault,
                                f'{words} with {process} at {place} in {name}')

    def restart_database(self):
        self.cloud.database.kill()
        self.cloud.database.start()

    def restart_broker(self):
        self.cloud.broker.kill()
        self.cloud.broker.start()

    def requests(self, act):
        """Call ``act`` for each queue of requests, and return the results."""
        names = [f'{clouds.TOPIC}-{topic}{of}' for topic, of in (
            ('scheduler', ''), ('scheduler', '.storage-1'), ('attachments', ''),
            ('volume', f'.{self.cloud.served(clouds.MANAGER)}'))]
        with rabbit.connect(self.cloud.broker.url) as broker:
            return [act(broker.default_channel, name) for name in names]

    def purge(self):
        """Drop all waiting requests."""
        self.requests(lambda channel, name: channel.queue_purge(name))

    def lost_requests(self, process, *names):
        """Drop the requests to a dead process before it is restarted."""
        for name in names:
            operation = nouns.named(name)
            with self.fault(operation=name, process=process):
                made = operation.prepare(self.client)
                self.client.forget()
                self.cloud.kill(process)
                ends = clients.in_thread(lambda act=operation.act, made=made: act(
                    self.client, made))
                self.assertTrue(clouds.wait_for(self._something_waits))
                self.purge()
                self.cloud.begin(process)
                ended = self.clock.monotonic()
                ends.result(faults.TIMEOUT)
                self.in_order(f'queues purged, {process} dead, in {name}', ended)

    def _something_waits(self):
        return any(self.requests(lambda channel, name: channel.queue_declare(
            name, passive=True).message_count))


class MariadbTest(ServersTestCase):

    def test_the_database_dies_in_a_transaction(self):
        self.survives(IN_TRANSACTION, self.restart_database, 'MariaDB killed')

    def test_the_broker_dies_on_the_way(self):
        self.survives(ON_THE_WAY, self.restart_broker, 'RabbitMQ killed')

    def test_the_queues_are_purged(self):
        self.lost_requests(clouds.MANAGER, 'attach', 'detach', 'force-detach', 'delete')
        self.lost_requests(clouds.SCHEDULER, 'create')


class PostgresqlTest(ServersTestCase):

    SERVER = servers.PostgreSQL

    def test_the_database_dies_in_a_transaction(self):
        self.survives(IN_TRANSACTION, self.restart_database, 'PostgreSQL killed')


class StoppedTest(ServersTestCase):
    """Stop of a process for longer than its deadlines, and its resume with open connections.

    All other places are tested in virtual time (``blockattach/tests/simulation/test_kills.py``,
    ``StandStillTest``).
    """

    CASES = (
        ('attach', clouds.MANAGER, 'volume.attachments.after_grant'),
        ('detach', clouds.API, 'control.attachments.after_disconnect_intent'))

    def test_each_process_is_stopped_and_goes_on(self):
        self.survives(self.CASES, self.let_deadlines_pass, 'stopped')

    def let_deadlines_pass(self):
        """Sleep in real time, which passes for the stopped process too."""
        faults.pause(max(clouds.BACKEND_SECONDS, clouds.DOWN_SECONDS) + 1)
