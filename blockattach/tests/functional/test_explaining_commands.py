"""Commands `openstack volume attachment history` and `explain`."""
import csv
import io
import json
import uuid

import yaml

from blockattach.storage.domain import attachment_lifecycle
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.functional import attachment_commands
from blockattach.tests.functional import test_attachment_commands

IQN = attachment_commands.IQN
HISTORY = ['When', 'Event', 'From', 'To', 'User ID', 'Request ID', 'Reason']
EXPLANATION = [
    'Attachment ID', 'Volume ID', 'Backend', 'Status', 'State', 'Host', 'Initiator', 'Mode',
    'Last Error', 'Last Event', 'When', 'User ID', 'Request ID', 'Exported', 'Mode At Target',
    'Sessions', 'Not Asked Because', 'Session Shared With', 'Difference', 'Found', 'Next',
    'Advice']
_State = attachment_lifecycle.State


class HistoryTest(attachment_commands.AttachmentCommandsTestCase):

    def test_history_lists_each_transition_of_deleted_attachment(self):
        made = self.connected(self.volume())['ID']
        self.output('complete', made)
        self.output('direct', 'delete', made)
        rows = self.shown('history', made)
        self.assertEqual(HISTORY, list(rows[0]))
        self.assertEqual(
            [('create', None, 'connecting'), ('connected', 'connecting', 'connected'),
             ('complete', 'connected', 'attached'), ('disconnect', 'attached', 'disconnecting'),
             ('disconnected', 'disconnecting', 'gone')],
            [(row['Event'], row['From'], row['To']) for row in rows])
        self.assertRegex(rows[0]['Request ID'], '^req-')

    def test_history_shows_reason_and_user(self):
        one = self.attachment(self.volume(), _State.ERROR_ATTACHING)
        last = self.shown('history', one.id)[-1]
        self.assertEqual(('refused by the test', None), (last['Reason'], last['User ID']))
        self.assertIn('| the service |', self.output('history', one.id, '-c', 'User ID'))

    def test_history_follows_pages_in_every_formatter(self):
        one = self.attachment(self.volume(), _State.ATTACHED)
        self.between.page = 3
        of_it = ('history', one.id, '--long', '-f')
        rows = json.loads(self.output(*of_it, 'json'))
        self.assertEqual([1, 2, 3, 4], [row['Generation'] for row in rows])
        self.assertEqual(['after=0&limit=1000', 'after=3&limit=1000', 'after=4&limit=1000'],
                         [query for _, _, query in self.between.asked])
        self.assertEqual(rows, yaml.safe_load(self.output(*of_it, 'yaml')))
        titles, *cells = csv.reader(io.StringIO(self.output(*of_it, 'csv')))
        self.assertEqual((['Generation', *HISTORY], 4), (titles, len(cells)))
        self.assertIn('| Generation | When ', self.output(*of_it, 'table'))

    def test_history_of_volume_includes_gone_attachments(self):
        volume = self.volume()
        gone, live = (self.connected(volume)['ID'] for _ in range(2))
        self.output('direct', 'delete', gone)
        rows = self.shown('history', volume.name)
        self.assertEqual(['When', 'Attachment ID', 'Host', 'Server ID', *HISTORY[1:]],
                         list(rows[0]))
        self.assertEqual({gone: 'gone', live: 'connected'},
                         {row['Attachment ID']: row['To'] for row in rows})
        self.assertEqual(len(self.shown('history', gone)), len(
            [row for row in rows if row['Attachment ID'] == gone]))
        self.assertEqual(rows, self.shown('history', volume.id))
        self.between.page = 3
        self.assertEqual([row['When'] for row in rows], [row['When'] for row in self.shown(
            'history', volume.id, '--long', '-c', 'When', '-c', 'Generation')])

    def test_history_of_deleted_volume_found_by_id(self):
        volume = self.volume()
        made = self.connected(volume)['ID']
        self.output('direct', 'delete', made)
        status, body = self.plain.ask('DELETE', f'/volumes/{volume.id}')
        self.assertEqual(202, status, body)
        self.assertEqual([made], sorted({row['Attachment ID'] for row in self.shown(
            'history', volume.id)}))

    def test_history_of_volume_without_attachments_is_empty(self):
        self.assertEqual([], self.shown('history', self.volume().id))

    def test_history_of_neither_attachment_nor_volume_refused(self):
        absent = str(uuid.uuid4())
        self.assert_refused(rf"Attachment {absent} not found\. Volume '{absent}' not found",
                            'history', absent)
        self.assert_refused("^Volume 'nosuch' not found", 'history', 'nosuch')


class ExplainTest(attachment_commands.AttachmentCommandsTestCase):

    def setUp(self):
        super().setUp()
        self.of = self.volume()
        self.between.date = 'Thu, 26 Nov 2026 11:01:59 GMT'
        self.between.change = self.at_a_known_age

    def at_a_known_age(self, _method, body):
        move = body.get('explanation', {}).get('record', {}).get('last_move')
        if move:
            move['at'] = '2026-11-26T10:00:00.000000'
        return body

    def lines(self, *arguments):
        return self.output('explain', *arguments,
                           prepare=test_attachment_commands.in_unicode).splitlines()

    def test_explain_draws_attachment(self):
        self.between.change = None
        made, other = (self.connected(self.of)['ID'] for _ in range(2))
        self.output('complete', made)
        self.between.change = self.at_a_known_age
        [row] = self.shown('explain', made)
        self.assertEqual([
            f'attachment {made}: attached',
            f'├── volume {self.of.id}',
            f'├── record: rw, host compute-1 ({IQN}compute-1)',
            f'├── target: exports the volume on {http.HOST}, grants the host rw, sessions: 0',
            f'├── session: shared with {other}',
            '├── in progress: nothing, last complete at 2026-11-26T10:00:00.000000 (1 h 1 min '
            f'ago), by {row["User ID"]}, request {row["Request ID"]}',
            f'├── found: {row["Found"]}',
            f'├── next: {row["Next"]}',
            '└── advice',
            *(f'    ├── {line}' for line in row['Advice'][:-1]),
            f'    └── {row["Advice"][-1]}'], self.lines(made))
        self.assertRegex(row['Request ID'], '^req-')
        self.assertEqual(('idle', 'attached', [other]), tuple(
            row[title] for title in ('Difference', 'State', 'Session Shared With')))

    def test_explain_shows_operation_in_progress(self):
        one = self.attachment(self.of, _State.CONNECTING)
        self.assertIn(
            '├── in progress: connect since 2026-11-26T10:00:00.000000 (1 h 1 min), by the '
            'service, request none', self.lines(one.id))

    def test_status_word_agrees_with_tree_and_names_the_state(self):
        made = {self.attachment(self.of, state).id: state for state in attachment_lifecycle.LIVE}
        explained = {row['Attachment ID']: (row['Status'], row['State']) for row in self.shown(
            'explain', self.of.id, '--all-projects')}
        self.assertEqual({made_id: (attachment_lifecycle.WIRE_STATUS[state], state.value)
                          for made_id, state in made.items()}, explained)
        self.assertEqual({made_id: status for made_id, (status, _) in explained.items()}, {
            row['Attachment ID']: row['Status'] for row in self.shown(
                'tree', self.of.id, '--all-projects')})

    def test_state_finer_than_the_status_drawn_beside_it(self):
        one = self.attachment(self.of, _State.CONNECTED)
        self.assertEqual(f'attachment {one.id}: attaching (connected)', self.lines(one.id)[0])
        [row] = self.shown('explain', one.id)
        self.assertEqual(('attaching', 'connected'), (row['Status'], row['State']))
        self.assertIn(', attaching, ', self.output('tree', self.of.id, '--all-projects'))

    def test_advice_to_delete_names_its_condition(self):
        self.between.change = None
        made = self.connected(self.of)['ID']
        [row] = self.shown('explain', made)
        self.assertEqual(['If the consumer no longer exists, delete the attachment.'],
                         row['Advice'])

    def test_explain_shows_error_and_missing_export(self):
        failed = self.attachment(self.of, _State.ERROR_ATTACHING)
        self.assertIn('│   └── last error: refused by the test', self.lines(failed.id))
        lost = self.attachment(self.of, _State.ATTACHED, 'compute-lost')
        found = self.lines(lost.id)
        self.assertIn(f'├── target: does not export the volume on {http.HOST}', found)
        self.assertIn('├── session: not shared', found)
        self.assertIn('├── found: The record grants the host access, but the target does not.',
                      found)

    def test_explain_shows_target_answer(self):
        one = self.attachment(self.of, _State.ATTACHED)
        for target, words in (
                ({'exported': True, 'mode': None, 'sessions': 0, 'reason': None},
                 f'exports the volume on {http.HOST}, grants the host no access'),
                ({'exported': None, 'mode': None, 'sessions': 0, 'reason': 'it\x1b[2J is down'},
                 f'not queried on {http.HOST} (it?[2J is down)')):
            with self.subTest(words):
                self.between.change = lambda _method, body, target=target: {
                    'explanation': {**body['explanation'], 'target': target}}
                self.assertIn(f'├── target: {words}', self.lines(one.id))

    def test_explain_lists_attachments_of_volume(self):
        first = self.attachment(self.of, _State.ATTACHED)
        second = make.attachment(self.api.database, self.of, _State.RESERVED)
        found = self.lines(self.of.name, '--all-projects')
        self.assertEqual(f'{self.of.name} ({self.of.id}): in-use', found[0])
        self.assertEqual([f'├── attachment {second.id}: reserved',
                          f'└── attachment {first.id}: attached'],
                         [line for line in found if line[4:].startswith('attachment ')])
        self.assertIn('│   ├── record: no mode, no host yet', found)
        self.assertIn(f'│   ├── target: nothing to query on {http.HOST}: no host yet', found)

    def test_explain_supports_every_formatter(self):
        one = self.attachment(self.of, _State.ATTACHED)
        of_volume = ('explain', self.of.id, '--all-projects', '-f')
        rows = json.loads(self.output(*of_volume, 'json'))
        self.assertEqual([EXPLANATION], [list(row) for row in rows])
        self.assertEqual([('attached', 'compute-1', 'complete', False, None, 'missing')], [tuple(
            row[title] for title in ('State', 'Host', 'Last Event', 'Exported', 'Mode At Target',
                                     'Difference')) for row in rows])
        self.assertEqual(rows, yaml.safe_load(self.output(*of_volume, 'yaml')))
        titles, *cells = csv.reader(io.StringIO(self.output(*of_volume, 'csv')))
        self.assertEqual((EXPLANATION, 1), (titles, len(cells)))
        self.assertIn('| Attachment ID ', self.output(*of_volume, 'table'))
        self.assertEqual(f'{one.id}\n', self.output(
            'explain', one.id, '-f', 'value', '-c', 'Attachment ID'))

    def test_explain_volume_without_attachments(self):
        self.assertEqual([f'{self.of.name} ({self.of.id}): available', '└── no attachments'],
                         self.lines(self.of.id))
        self.assertEqual([], self.shown('explain', self.of.id))

    def test_explain_unknown_id_rejected(self):
        absent = str(uuid.uuid4())
        self.assert_refused(rf"Attachment {absent} not found\. Volume '{absent}' not found\. "
                            'List the volumes', 'explain', absent)
        self.assert_refused("^Volume 'nosuch' not found", 'explain', 'nosuch')
