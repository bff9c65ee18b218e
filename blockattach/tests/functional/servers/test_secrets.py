"""Password of an attachment, which reaches only the host.

It must not appear in a log at DEBUG, a row, a notification or an answer.
"""
import json
import logging
import re

import sqlalchemy as sa

from blockattach.tests.functional.servers import cloud

WRITES = re.compile('(UPDATE|INSERT INTO) (servers|block_devices|acts|agents) ')


class SecretsTest(cloud.ComputeTestCase):

    def setUp(self):
        super().setUp()
        self.rows, self.passwords, self.answers = [], set(), []
        sa.event.listen(sa.Engine, 'before_cursor_execute', self.note)
        self.addCleanup(sa.event.remove, sa.Engine, 'before_cursor_execute', self.note)

    def note(self, _connected, _cursor, statement, parameters, *_more):
        if WRITES.match(statement):
            self.rows.append(str(parameters))

    def act(self, *arguments, **more):
        self.collect()
        self.answers.append(super().act(*arguments, **more))
        self.collect()

    def collect(self):
        for host in self.hosts.values():
            self.passwords |= {info['auth_password'] for info in host.connected().values()}

    def test_server_lifecycle_reveals_no_password(self):
        with self.assertLogs(level=logging.DEBUG) as logged:
            logger = logging.getLogger('keystoneauth')
            self.addCleanup(logger.setLevel, logger.level)
            logger.setLevel(logging.DEBUG)
            root, other = self.volume(multiattach=True), self.volume(multiattach=True)
            made = self.create(root)
            self.attach(made, other)
            self.act(made, 'os-migrateLive', {'host': None, 'block_migration': 'auto'})
            self.act(made, 'resize', {'flavorRef': '2'})
            self.hosts['host-b'].failing.append('spawn')
            self.hosts['host-a'].failing.append('reboot')
            self.act(made, 'revertResize')
            self.act(made, 'confirmResize', status=204)
            self.act(made, 'reboot', {'type': 'HARD'})
            self.answers.append(self.server(made))
            self.asked(204, 'DELETE', f'/servers/{made}')
            self.cloud.settle()
        self.assertGreater(len(self.passwords), 2)
        for name, text in (('logs', '\n'.join(logged.output)), ('rows', '\n'.join(self.rows)),
                           ('notifications', json.dumps(self.cloud.notified.events)),
                           ('answers', json.dumps(self.answers))):
            self.assertNotEqual('', text)
            for password in self.passwords:
                with self.subTest(name):
                    self.assertNotIn(password, text)
