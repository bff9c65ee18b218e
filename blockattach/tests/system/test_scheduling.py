"""Placing volumes as separate processes do it: a backend dies, or is silent; reports go on."""
import signal
import tempfile

from blockattach.tests.db import base as db_base
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import rabbit
from blockattach.tests.functional import base
from blockattach.tests.system import site

HOSTS = ('storage-1', 'storage-2')
# Who is silent for so long does not take a volume on: no process that lives may be.
HAND_OVER_SECONDS = 8
SETTINGS = {('disks', 'store'): 'fake', ('disks', 'target'): 'fake',
            ('rpc', 'short_call_timeout'): str(HAND_OVER_SECONDS),
            ('service', 'report_interval'): '1',
            ('scheduler', 'scheduler_default_weighers'): 'allocated:-1.0'}
# How long the transactions of processes that run may take.
OTHERS_SECONDS = 5
LOCKING = ('SELECT count(*) FROM information_schema.innodb_trx JOIN '
           'information_schema.processlist ON id = trx_mysql_thread_id '
           'WHERE trx_lock_structs > 0 AND db = DATABASE()')


class SchedulingCase(base.StackTestCase):
    """Two hosts; ``settings`` are those of the tests of a class."""

    settings = {}

    def setUp(self):
        super().setUp()
        self.outside_program(rabbit.why_missing() is None, 'RabbitMQ')
        self.outside_program(database.why_missing(database.MYSQL) is None, 'MariaDB')
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.rows = database.DatabaseFixture(database.MYSQL)
        self.addCleanup(self.rows.close)
        broker = rabbit.RabbitFixture()
        self.addCleanup(broker.close)
        self.site = site.Site(folder.name, self.rows.url)
        self.addCleanup(self.site.close)
        for host in HOSTS:
            broker.serves('scheduler', host)
            broker.serves('volume', f'{host}@disks')
            for binary in ('cinder-scheduler', 'cinder-volume'):
                broker.serves('process', f'{binary}.{host}')
            self.site.configure(host, {**SETTINGS, **self.settings, **broker.options()})
            self.site.start(host)
        self.api = base.Api(f'http://127.0.0.1:{self.site.port(HOSTS[0])}/v3', site.SECONDS)
        self.wait_until(self.site.is_up, HOSTS[0], self.api)
        self.wait_until(self.site.is_up, HOSTS[1], self.api)

    def wait_until(self, condition, *arguments):
        self.assertTrue(base.wait_for(lambda: self.site.ended() or condition(*arguments),
                                      site.SECONDS))
        self.assertEqual([], self.site.ended())

    def pause(self, host):
        """Let a manager stand still, but not in the middle of a transaction: whoever needed what
        that has locked would hang at the database, and never come to wait for the manager.
        """
        self.site.pause(host, 'volume')
        while not base.wait_for(lambda: not self.transactions(), OTHERS_SECONDS,
                                db_base.BETWEEN_LOOKS):
            self.site.signal(host, 'volume', signal.SIGCONT)
            self.site.pause(host, 'volume')

    def transactions(self):
        """How many hold locks in our database now."""
        with self.rows.database.reader() as connection:
            return connection.exec_driver_sql(LOCKING).scalar_one()

    def create(self):
        status, made = self.api.ask('POST', '/volumes', {'volume': {'size': 1}})
        self.assertEqual(202, status, made)
        return made['volume']['id']

    def volume(self, volume_id):
        return self.api.ask('GET', f'/volumes/{volume_id}')[1]['volume']

    def made_on(self, volume_id):
        """The host that a volume is on once it is made."""
        self.wait_until(lambda: self.volume(volume_id)['status'] != 'creating')
        shown = self.volume(volume_id)
        self.assertEqual('available', shown['status'], shown)
        return shown['os-vol-host-attr:host'].partition('@')[0]

    def pools(self):
        return {pool['name'].partition('@')[0]: pool['capabilities'] for pool in self.api.ask(
            'GET', '/scheduler-stats/get_pools?detail=true')[1]['pools']}

    def states(self):
        return {one['host'].partition('@')[0]: one['state'] for one in self.api.list(
            'services', '/os-services?binary=cinder-volume')}


class ChangesTest(SchedulingCase):
    """Nobody reports by the clock."""

    settings = {('volume', 'backend_stats_polling_interval'): '3600'}

    def test_a_manager_dies_while_volumes_are_made(self):
        """The room that was claimed there is given back, and another backend makes them."""
        dying, living = HOSTS
        self.pause(dying)
        asked = [self.create() for _ in range(4)]
        logs = [self.site.log(host, 'scheduler') for host in HOSTS]
        self.wait_until(lambda: any('Cannot hand a volume over' in log.read_text('utf-8')
                                    for log in logs))
        self.site.kill(dying, 'volume')
        self.assertEqual({living}, {self.made_on(volume_id) for volume_id in asked})
        self.assertEqual((0, 4), (self.pools()[dying]['allocated_capacity_gb'],
                                  self.pools()[living]['allocated_capacity_gb']))

    def test_a_report_follows_each_change_and_outlives_a_restart(self):
        before = self.pools()
        host = self.made_on(volume_id := self.create())
        self.until_reported(host, before[host], 1)
        made = self.pools()[host]
        self.api.ask('DELETE', f'/volumes/{volume_id}')
        self.until_reported(host, made, -1)
        # Everything but the managers begins anew: they have nothing new to say.
        reported = {one: pool['timestamp'] for one, pool in self.pools().items()}
        for one in HOSTS:
            self.site.kill(one, 'scheduler')
        self.site.start(HOSTS[0], only=('scheduler',))
        asked = self.create()
        others = set(HOSTS) - {self.made_on(asked)}
        for one in others:
            self.assertEqual(reported[one], self.pools()[one]['timestamp'])

    def until_reported(self, host, before, more):
        """Until a later report tells of so many GiB more. One of the start may come between."""
        def reported():
            now = self.pools()[host]
            return (now['timestamp'] > before['timestamp'] and now['provisioned_capacity_gb']
                    == before['provisioned_capacity_gb'] + more)
        self.wait_until(reported)


class SilenceTest(SchedulingCase):

    settings = {('volume', 'backend_stats_polling_interval'): '2',
                ('service', 'service_down_time'): '15'}

    def test_a_backend_that_is_silent_counts_as_down_everywhere(self):
        silent, living = HOSTS
        self.pause(silent)
        self.wait_until(lambda: self.states() == {silent: 'down', living: 'up'})
        self.assertEqual(('down', 'up'), tuple(
            self.pools()[host]['backend_state'] for host in HOSTS))
        for _ in range(2):
            self.assertEqual(living, self.made_on(self.create()))
        self.site.signal(silent, 'volume', signal.SIGCONT)
        self.wait_until(lambda: self.states() == {silent: 'up', living: 'up'})
        self.assertEqual('up', self.pools()[silent]['backend_state'])
