"""State report of a process: all sections, and no secrets."""
import os
import re
import signal
import sqlite3
import threading

from blockattach.tests.functional import base

SECONDS = 180
SETTINGS = """
[oslo_reports]
log_dir = {folder}
[nova]
username = nova
password = hunter2
[oslo_messaging_notifications]
transport_url = rabbit://guest:correct-horse@127.0.0.1:1/
"""
SECRETS = ('hunter2', 'correct-horse')


class StateReportTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.service = self.a_stack()
        self.service.stop()
        self.folder = self.service.state_dir
        self.service = self.a_stack(state_dir=self.folder,
                                    settings=SETTINGS.format(folder=self.folder))

    def reports(self):
        return [name for name in sorted(os.listdir(self.folder))
                if '_gurumeditation_' in name]

    def asked(self):
        """Request a report with a signal and return its text."""
        before = self.service.log_text().count('State report written')
        os.kill(self.service.pid, signal.SIGUSR2)
        self.assertTrue(base.wait_for(
            lambda: self.service.log_text().count('State report written') > before, SECONDS))
        with open(f'{self.folder}/{self.reports()[-1]}', encoding='utf-8') as file:
            return file.read()

    def test_report_has_all_sections_and_service_continues(self):
        api = base.Api(self.service.endpoint)
        volume_id = self.a_volume(api)
        report_text = base.wait_for(
            lambda: 'has not been checked yet' not in (said := self.asked()) and said, SECONDS)
        self.assertTrue(report_text)
        # The section of green threads only exists if greenlet is installed.
        sections = [title for title in re.findall(r'^====\s+(.+?)\s+====$', report_text, re.M)
                    if title != 'Green Threads']
        self.assertEqual([
            'State of blockattach-all', 'Package', 'Threads', 'Processes', 'Configuration',
            'Names of threads', 'Calls in progress', 'Measures', 'Queues', 'Health', 'Bus',
            'Backend fake', 'Locks of backend fake', 'Work of backend fake'], sections)
        for text in ('reconcile-', 'store = fake', 'broker = inside the process',
                     'database = healthy', 'pool_free_bytes', 'reconcile_interval = '):
            with self.subTest(text):
                self.assertIn(text, report_text)
        self.assertEqual(200, api.ask('GET', f'/volumes/{volume_id}')[0])

    def test_report_contains_no_secret(self):
        api = base.Api(self.service.endpoint)
        made = api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': self.a_volume(api), 'instance_uuid': base.instance('one'),
            'connector': base.connector('one')}})[1]['attachment']
        password = made['connection_info']['auth_password']
        with open(f'{self.folder}/seal.key', encoding='ascii') as file:
            keys = file.read().split()
        connection = sqlite3.connect(f'{self.folder}/blockattach.sqlite')
        self.addCleanup(connection.close)
        sealed = [row[0] for row in connection.execute('SELECT sealed_password FROM grants')]
        self.assertEqual(1, len(sealed))
        report_text = self.asked()
        self.assertEqual([], [secret for secret in (*SECRETS, password, *keys, *sealed)
                              if secret in report_text])

    def test_hanging_request_reported_as_call_in_progress(self):
        api = base.Api(self.service.endpoint)
        # The transaction blocks all other writers.
        connection = sqlite3.connect(f'{self.folder}/blockattach.sqlite', isolation_level=None)
        self.addCleanup(connection.close)
        connection.execute('BEGIN IMMEDIATE')
        asking = threading.Thread(target=api.ask, args=('POST', '/volumes', {
            'volume': {'size': 1}}))
        asking.start()
        self.addCleanup(asking.join)
        self.addCleanup(connection.rollback)
        found = base.wait_for(lambda: re.search(
            r'\d http_request: \n  operation = POST /volumes\n  request_id = (req-.*)\n',
            self.asked()), SECONDS)
        self.assertTrue(found)
        # The request is now waiting for the database.
        self.assertTrue(base.wait_for(lambda: re.search(
            r'\d database_transaction: \n  kind = write\n  '
            rf'request_id = {found[1]}\n', self.asked()), SECONDS))
