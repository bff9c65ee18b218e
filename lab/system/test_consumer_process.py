"""Consumer of attachments over RabbitMQ, next to separate processes."""
import ast
import json
import pathlib
import subprocess
import sys
import unittest

from blockattach.testing import initiator
from blockattach.tests.functional import base
from blockattach.tests.functional import consumer
from lab.system import processes

PROJECT = '00000000000000000000000000000002'
USER = '00000000000000000000000000000001'
SCRIPT = pathlib.Path(consumer.__file__)
MAY_IMPORT = {'blockattach.storage.rpc.attachments', 'blockattach.platform.rpc.transport',
              'blockattach.platform.rpc.contract'}
OURS_ALONE = {'api', 'control', 'db', 'drivers', 'http', 'policy', 'scheduler', 'volume', 'wiring'}


class ScriptTest(unittest.TestCase):

    def test_consumer_imports_only_bus_modules(self):
        names = {f'{node.module}.{alias.name}'
                 for node in ast.walk(ast.parse(SCRIPT.read_text(encoding='utf-8')))
                 if isinstance(node, ast.ImportFrom) for alias in node.names}
        self.assertLessEqual({name for name in names if name.startswith('blockattach')},
                             MAY_IMPORT)


class ConsumerTest(processes.ProcessesTestCase):

    def consume(self, volume_id):
        """Start the consumer. It is killed at the end of the test."""
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), '--config-file', f'{self.folder}/blockattach.conf',
             PROJECT, USER, volume_id, base.instance('consumer')],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def answer_of(self, process):
        line = process.stdout.readline()
        self.assertTrue(line, 'the consumer has closed its output')
        return json.loads(line)

    def test_consumer_attaches_and_detaches_volume(self):
        self.begin('control')
        volume_id = self.a_volume(self.api)
        process = self.consume(volume_id)
        made = self.answer_of(process)
        self.assertEqual('attaching', made['status'])
        self.write_through(made['info'])
        self.assertEqual({'status': 'attached', 'listed': [made['id']]}, self.answer_of(process))
        shown = self.api.ask('GET', f'/attachments/{made["id"]}')[1]['attachment']
        self.assertEqual(('attached', made['info']), (shown['status'], shown['connection_info']))
        process.stdin.write('go on\n')
        process.stdin.flush()
        self.assertEqual(['AttachmentNotFound', 'NotAuthorized', 'NotAuthorized'],
                         [self.answer_of(process)['refused'] for _ in range(3)])
        last = self.answer_of(process)
        self.assertEqual('AttachmentNotFound', last['refused'])
        self.assertEqual(set(), OURS_ALONE & set(last['packages']))
        self.assertEqual(0, process.wait(base.SECONDS))
        self.assertEqual('available', self.api.ask(
            'GET', f'/volumes/{volume_id}')[1]['volume']['status'])
        self.assertEqual([], self.api.list('attachments', '/attachments'))

    def write_through(self, info):
        """Write to the volume as the consumer's host, if the machine has an initiator."""
        if initiator.available():
            host = initiator.Initiator(consumer.CONNECTOR['initiator'], base.SECONDS)
            with host.open(info) as session:
                session.write(0, 4096, 1)
