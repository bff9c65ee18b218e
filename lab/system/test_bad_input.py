"""Errors of an operator: one line that names the option and the file, and exit status 1."""
import contextlib
import os
import socket
import sqlite3
import subprocess
import sys

from blockattach.tests.fixtures import servers
from lab.system import test_process_instances

# Single-threaded WSGI server. A line of its input is a path, and a line of its output contains the
# status and the error log.
SERVER = """
import io, sys
from wsgiref import util
from blockattach import wsgi
for path in sys.stdin:
    statuses, environ = [], {'PATH_INFO': path.strip(), 'wsgi.errors': io.StringIO()}
    util.setup_testing_defaults(environ)
    list(wsgi.application(environ, lambda status, headers: statuses.append(status)))
    print(statuses[0].split()[0], environ['wsgi.errors'].getvalue().strip(), flush=True)
"""
PROCESSES = (*test_process_instances.PROCESSES, 'allinone')
ALL = (*PROCESSES, 'manage')


class BadInputTest(test_process_instances.ProcessTestCase):
    def refused(self, *names):
        """Yield each of the processes with the line that it prints."""
        for name in names:
            with self.subTest(process=name):
                yield name, self.line(name, self.tried(name))

    def tried(self, name):
        """Run a process, or a command with its arguments."""
        program, *arguments = name.split()
        if name == 'manage':
            arguments = ['service', 'list']
        if program == 'allinone':
            arguments = ['--state-dir', f'{self.folder}/state']
        return self.run_once(program, *arguments)

    def line(self, name, done):
        self.assertEqual((1, ''), (done.status, done.output), done.errors)
        self.assertNotIn('Traceback', done.errors)
        self.assertNotIn('geheim', done.errors)
        command = self.command(name.split()[0])[0]
        line, = [line for line in done.errors.splitlines() if line.startswith(f'{command}: ')]
        # Earlier lines are those of the log, which goes to the terminal.
        self.assertEqual(line, done.errors.splitlines()[-1])
        return line

    def check(self, names, option, words='', **places):
        """Check that each of the processes names the option and the file."""
        self.configure(**places)
        for _, line in self.refused(*names):
            self.assertIn(f'{option} in {self.file}', line)
            self.assertIn(words, line)

    def migrated(self):
        done = self.run_once('manage', 'db', 'sync')
        self.assertEqual(0, done.status, done.errors)

    def test_a_wrong_value(self):
        self.check(ALL, '[rpc] threads', 'is invalid', last='[rpc]\nthreads = many')
        self.check(('scheduler',), '[oslo_messaging_rabbit] ssl', 'is invalid',
                   last='[oslo_messaging_rabbit]\nssl = perhaps')

    def test_a_wrong_value_of_an_option_that_the_command_line_has_too(self):
        self.configure(default='debug = perhaps')
        for _, line in self.refused(*ALL):
            self.assertIn('debug', line)
            self.assertIn(self.file, line)

    def test_files_that_cannot_be_read(self):
        for names, text in ((ALL, 'garbage\n'), (('scheduler',), '[api\n')):
            with open(self.file, 'w', encoding='utf-8') as file:
                file.write(text)
            for _, line in self.refused(*names):
                self.assertIn(self.file, line)
        os.unlink(self.file)
        for _, line in self.refused(*ALL):
            self.assertIn(self.file, line)

    def test_a_backend_without_a_group(self):
        self.migrated()
        self.check(('volume',), '[volume] enabled_backends', 'missing group [tapes]',
                   last='[volume]\nenabled_backends = disks,tapes')
        self.check(('volume',), '[volume] enabled_backends', 'enabled_backends is empty',
                   last='[volume]\nenabled_backends =')
        self.check(('volume',), 'group [disks]', 'store = tape', last='[disks]\nstore = tape')
        self.check(('volume',), '[disks] reserved_percentage', 'is invalid',
                   last='[disks]\nreserved_percentage = 101')
        self.check(('volume',), '[disks] filter_function', 'unexpected end of expression',
                   last='[disks]\nfilter_function = volume.size <')

    def test_backends_that_want_one_tgtd_at_two_places(self):
        self.migrated()
        both = '[volume]\nenabled_backends = disks,more\n[disks]\ntarget = tgt\n[more]\n'
        for option in ('target_ip_address = 127.0.0.2', 'target_port = 3261',
                       'target_secondary_ip_addresses = 127.0.0.2'):
            self.check(('volume', 'allinone'), f'[more] {option.split()[0]}',
                       'the same as in backend disks', last=f'{both}{option}')

    def test_a_filter_that_nobody_can_answer(self):
        self.migrated()
        self.check(('scheduler',), '[scheduler] scheduler_default_filters', 'without Nova',
                   last='[scheduler]\nscheduler_default_filters = instance_locality')

    def test_a_database_that_does_not_answer(self):
        port, some = servers.free_port(), ('scheduler', 'manage')
        for names, url in ((ALL, f'mysql+pymysql://u:geheim@127.0.0.1:{port}/x'),
                           (some, f'postgresql+psycopg2://u:geheim@127.0.0.1:{port}/x'),
                           (some, 'geheim'), (some, 'nothing://u:geheim@h/')):
            self.check(names, '[database] connection', 'cannot use the database',
                       last=f'[database]\nconnection = {url}')

    def test_a_broker_that_does_not_answer(self):
        self.migrated()
        port = servers.free_port()
        self.check(test_process_instances.PROCESSES, '[DEFAULT] transport_url',
                   f'cannot reach the message broker at 127.0.0.1:{port}',
                   default=f'transport_url = rabbit://u:geheim@127.0.0.1:{port}/')
        self.check(('scheduler',), '[DEFAULT] transport_url',
                   default='transport_url = nothing://u:geheim@h/')

    def test_a_database_without_tables(self):
        self.configure()
        for _, line in self.refused(*test_process_instances.PROCESSES, 'manage'):
            self.assertIn('run blockattach-manage db sync', line)
            self.assertIn(f'[database] connection, not set in {self.file}', line)

    def test_a_database_of_a_newer_release(self):
        self.migrated()
        with contextlib.closing(sqlite3.connect(
                f'{self.folder}/state/blockattach.sqlite')) as rows, rows:
            rows.execute('DELETE FROM alembic_version')
            rows.execute("INSERT INTO alembic_version VALUES ('9999')")
        for _, line in self.refused(*ALL, 'manage db sync'):
            self.assertIn('belongs to a newer release: revision 9999', line)
            self.assertIn(f'[database] connection, not set in {self.file}', line)

    def test_a_state_directory_that_cannot_be_made(self):
        self.check(('scheduler', 'manage'), '[DEFAULT] state_path',
                   'cannot create the state directory', default='state_path = /dev/null/x')

    def test_a_key_file_that_is_none(self):
        self.migrated()
        path = f'{self.folder}/key'
        with open(path, 'w', encoding='ascii') as file:
            file.write('x')
        for mode, words in ((0o644, f'chmod 600 {path}'), (0o600, 'no valid Fernet key')):
            os.chmod(path, mode)
            self.check(('volume', 'manage'), '[DEFAULT] seal_key_file', words,
                       default=f'seal_key_file = {path}')

    def test_policy_files_that_are_none(self):
        self.migrated()
        path = f'{self.folder}/policy.yaml'
        with open(path, 'w', encoding='ascii') as file:
            file.write('- a\n- b\n')
        self.check(('api', 'control'), '[oslo_policy] policy_file', 'cannot read the policy files',
                   last=f'[oslo_policy]\npolicy_file = {path}')

    def test_an_address_that_is_taken(self):
        self.migrated()
        with socket.create_server(('127.0.0.1', self.port)):
            self.check(('api',), '[api] port', 'cannot listen')

    def test_filters_and_releases_that_nobody_knows(self):
        self.migrated()
        for option in ('scheduler_default_filters = weather',
                       'scheduler_default_weighers = weather:1.0'):
            self.check(('scheduler',), f'[scheduler] {option.split()[0]}', 'weather',
                       last=f'[scheduler]\n{option}')
        self.check(('api', 'scheduler'), '[rpc] release', 'never',
                   last='[rpc]\nrelease = never')

    def test_health_that_cannot_be_written(self):
        self.migrated()
        self.check(('scheduler', 'volume'), '[health] file', 'cannot write',
                   last='[health]\nfile = /dev/null/x')
        self.check(('api',), '[healthcheck] backends', 'blockattach_weather',
                   last='[healthcheck]\nbackends = blockattach_weather')

    def test_a_log_that_cannot_be_written(self):
        self.check(('volume', 'manage'), '[DEFAULT] log_file', 'cannot write the log',
                   default='log_file = /dev/null/x')

    def test_a_wsgi_server_goes_on_and_says_why_it_cannot_answer(self):
        self.configure(default='transport_url = rabbit://u:geheim@127.0.0.1:'
                               f'{servers.free_port()}/')
        server = subprocess.Popen(
            [sys.executable, '-c', SERVER], text=True, bufsize=1, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, 'BLOCKATTACH_CONFIG_FILES': self.file})
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.addCleanup(server.stdin.close)

        def ask(path):
            server.stdin.write(f'{path}\n')
            return server.stdout.readline()

        for _ in range(2):
            answer = ask('/healthcheck')
            self.assertRegex(answer, '^503 blockattach-api: the database is at revision None .+'
                                   'run blockattach-manage db sync')
            self.assertIn(f'[database] connection, not set in {self.file}', answer)
        self.migrated()
        # The broker is still unavailable, but requests that only read the database need no broker.
        self.assertEqual('200 \n', ask('/v3/p/volumes'))
        self.assertEqual('503 \n', ask('/healthcheck'))
        self.assertEqual('200 \n', ask('/healthcheck/live'))
