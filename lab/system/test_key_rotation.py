"""``blockattach-manage secrets rotate`` during attachments by clients, also killed halfway."""
import pathlib
import signal
import threading

import sqlalchemy as sa

from blockattach.platform import clock
from blockattach.platform.secrets import key_file
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import key_rotation
from blockattach.tests.fixtures import database
from blockattach.tests.functional import base
from lab.system import processes

_grants = models.grants
CLIENTS = 2
# Encrypting this number of credentials again takes a while.
MANY = 600
# Minimum and maximum number of rounds of a client.
ROUNDS, MOST_ROUNDS = 5, 1000


class RotationTest(processes.ProcessesTestCase):

    def setUp(self):
        super().setUp()
        self.key_file = pathlib.Path(self.folder, 'state', 'seal.key')
        self.refused, self.rounds = [], [0] * CLIENTS
        self.over = threading.Event()

    def open(self):
        """Open the database like the processes of the service."""
        found = storage_db.Database(database.open_engine(self.rows.url),
                                key_file.KeyFile(str(self.key_file)), clock.Clock())
        self.addCleanup(found.close)
        return found

    def attach(self, number):
        """Attach, show and detach repeatedly. Any refused request is recorded."""
        def ask(method, path, body=None):
            status, answer = self.api.ask(method, path, body)
            if status >= 300:
                self.refused.append((method, path, status, answer))
            return answer

        host = f'client-{number}'
        for _ in range(MOST_ROUNDS):
            made = ask('POST', '/attachments', {'attachment': {
                'volume_uuid': self.volume_id, 'instance_uuid': base.instance(host),
                'connector': base.connector(host)}})
            if self.refused:
                return
            path = f'/attachments/{made["attachment"]["id"]}'
            shown = ask('GET', path)['attachment']['connection_info']
            if shown['auth_password'] != made['attachment']['connection_info']['auth_password']:
                self.refused.append((path, 'two passwords'))
            ask('DELETE', path)
            self.rounds[number] += 1
            if self.over.is_set() and self.rounds[number] >= ROUNDS:
                return

    def fill(self, rows):
        """Insert many credentials, as in a cloud that has run for long."""
        sealed = [rows.sealer.sealed(f'password-{number}') for number in range(MANY)]
        with rows.writer() as connection:
            connection.execute(_grants.insert(), [
                {'volume_id': self.volume_id, 'initiator': f'iqn.{number}', 'alias': f'{number}',
                 'username': 'u', 'sealed_password': one.text, 'key_id': one.key_id,
                 'created_at': rows.clock.utcnow()} for number, one in enumerate(sealed)])

    def passwords(self, rows):
        """Return the decrypted passwords of the inserted credentials."""
        with rows.reader() as connection:
            return [rows.sealer.unseal(row.sealed_password) for row in connection.execute(
                sa.select(_grants).where(_grants.c.username == 'u'))]

    def keys(self):
        return self.key_file.read_text('utf-8').split()

    def kill_halfway(self, rows):
        """Kill the rotation when some of the credentials are encrypted with the new key."""
        [old] = rows.sealer.ring()
        status, _ = self.run_once('manage', 'secrets', 'rotate',
                                  OS_FAILPOINTS__ARMED='db.key_rotation.after_batch=kill')
        self.assertEqual(-signal.SIGKILL, status)
        found = key_rotation.counts(rows)
        self.assertGreaterEqual(sum(found.values()) - found[old.id], key_rotation.BATCH)

    def test_nobody_is_refused(self):
        self.begin()
        self.volume_id = self.a_volume(self.api, volume_type='multiattach')
        rows, first = self.open(), self.keys()
        self.fill(rows)
        clients = [threading.Thread(target=self.attach, args=(number,))
                   for number in range(CLIENTS)]
        for one in clients:
            one.start()
        try:
            self.kill_halfway(rows)
            self.assertEqual(2, len(self.keys()))
            for _ in range(2):
                status, said = self.run_once('manage', 'secrets', 'rotate')
                self.assertEqual(0, status, said)
                [key] = self.keys()
                self.assertNotIn(key, said)
        finally:
            self.over.set()
            for one in clients:
                one.join()
        self.assertEqual([], self.refused)
        self.assertNotEqual(first, self.keys())
        again = self.open()
        self.assertCountEqual([f'password-{number}' for number in range(MANY)],
                              self.passwords(again))
        self.assertEqual({again.sealer.ring()[0].id}, set(key_rotation.counts(again)))

    def test_services_of_other_hosts_have_other_files(self):
        self.begin()
        before = self.keys()
        configured = pathlib.Path(self.folder, 'blockattach.conf')
        configured.write_text(configured.read_text('utf-8').replace(
            f'host = {processes.HOST}\n', 'host = elsewhere\n'), 'utf-8')
        status, said = self.run_once('manage', 'secrets', 'rotate')
        self.assertEqual(1, status)
        self.assertIn(f'services of other hosts are up ({processes.HOST}). Run --prepare', said)
        self.assertEqual(before, self.keys())
