"""Commands `openstack volume backend pool explain`, `volume detail list`, `volume reconcile`."""
from blockattach.storage.db.services import pools
from blockattach.storage.domain import attachment_lifecycle
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.functional import attachment_commands

SMALL = 'storage-8@small#pool'
POOLS = ['Name', 'Takes It', 'Score', 'Left GiB', 'Refused By', 'Reason']
FINDINGS = ['Host', 'Drift', 'Volume ID', 'Attachment ID', 'Initiator', 'Found', 'Remedy',
            'Outcome']


class ExplainPoolsTest(attachment_commands.AttachmentCommandsTestCase):

    noun = 'backend'

    def setUp(self):
        super().setUp()
        pools.report(self.api.database, 'storage-8@small', [(SMALL, {
            'total_capacity_gb': 10, 'free_capacity_gb': 10, 'multiattach': False})], make.ZONE)

    def test_pool_explain_names_refusing_filter(self):
        rows = self.shown('pool', 'explain', '20')
        self.assertEqual(POOLS, list(rows[0]))
        self.assertEqual([
            (http.POOL, True, None, None),
            (SMALL, False, 'capacity', '10 GiB left, 20 GiB required')],
            [tuple(row[name] for name in ('Name', 'Takes It', 'Refused By', 'Reason'))
             for row in rows])

    def test_pool_explain_for_type_and_zone(self):
        rows = self.shown('pool', 'explain', '1', '--type', 'multiattach',
                          '--availability-zone', make.ZONE)
        self.assertEqual(['multiattach is not supported'],
                         [row['Reason'] for row in rows if row['Name'] == SMALL])

    def test_pool_explain_with_invalid_arguments_rejected(self):
        self.assert_refused("'0' is not a number from 1 to", 'pool', 'explain', '0', status=2)
        self.assert_refused('the value must not be empty', 'pool', 'explain', '1', '--type', '',
                            status=2)
        self.assert_refused('silver could not be found', 'pool', 'explain', '1', '--type',
                            'silver')
        self.assert_refused("Availability zone 'mars' is invalid", 'pool', 'explain', '1',
                            '--availability-zone', 'mars')


class ListVolumesTest(attachment_commands.AttachmentCommandsTestCase):

    noun = 'detail'

    def test_detail_list_shows_multiattach(self):
        make.volume_type(self.api.database, 'plain')
        plain, shared = self.volume(kind='plain'), self.volume()
        rows = {row['ID']: row for row in self.shown('list')}
        self.assertEqual({'ID': shared.id, 'Name': shared.name, 'Status': 'available', 'Size': 1,
                          'Type': 'multiattach', 'Multiattach': True,
                          'Attached To': []}, rows[shared.id])
        self.assertFalse(rows[plain.id]['Multiattach'])
        self.assertEqual([shared.id], [row['ID'] for row in self.shown(
            'list', '--multiattach', '--all-projects')])


class ReconcileTest(attachment_commands.AttachmentCommandsTestCase):

    noun = 'reconcile'

    def setUp(self):
        super().setUp()
        self.target = self.api.manager.backend.fake_target
        self.of = self.volume()
        self.initiator = f'{attachment_commands.IQN}compute-1'
        self.connected(self.of)

    def connected(self, volume):
        status, body = self.plain.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume.id,
            'connector': make.connector(host='compute-1', initiator=self.initiator)}})
        self.assertEqual(200, status, body)

    def grants(self):
        return {grant.initiator for export in self.target.exports() for grant in export.grants
                if export.volume_id == self.of.id}

    def test_reconcile_restores_missing_grant(self):
        self.assertEqual([], self.shown())
        self.target.revoke(self.of.id, self.initiator)
        done = self.run_command('--dry-run', '-f', 'json')
        self.assertEqual(3, done.status)
        self.assertIn('would be done', done.output)
        self.assertEqual(set(), self.grants())
        [row] = self.shown()
        self.assertEqual(FINDINGS, list(row))
        self.assertEqual((http.HOST, 'grant', self.of.id, self.initiator, 'done'), (
            row['Host'], row['Drift'], row['Volume ID'], row['Initiator'], row['Outcome']))
        self.assertEqual({self.initiator}, self.grants())
        self.assertEqual([], self.shown('--host', http.HOST))

    def test_reconcile_continues_after_unknown_host(self):
        self.target.revoke(self.of.id, self.initiator)
        done = self.run_command('--host', 'nowhere@fake', '--host', http.HOST, '-f', 'json')
        self.assertEqual(1, done.status)
        self.assertRegex(' '.join(done.errors.split()), 'Failed to reconcile nowhere@fake: .*404')
        self.assertEqual({self.initiator}, self.grants())

    def test_reconcile_finishes_interrupted_detach(self):
        one = self.attachment(self.of, attachment_lifecycle.State.DISCONNECTING)
        with self.api.database.writer() as connected:
            connected.exec_driver_sql(
                f"UPDATE attachments SET deadline = '2020-01-01' WHERE id = '{one.id}'")
        self.assertEqual(['attachment'], [row['Drift'] for row in self.shown()])
        self.assertNotIn(one.id, [row['id'] for row in self.plain.list('attachments')])


class NoBackendTest(attachment_commands.AttachmentCommandsTestCase):

    noun = 'reconcile'

    def test_reconcile_without_volume_service_names_remedy(self):
        with self.api.database.writer() as connected:
            connected.exec_driver_sql(
                "UPDATE services SET reported_at = '2020-01-01 00:00:00.000000'")
        self.assert_refused('No volume service is up. Check with "openstack volume service list"')
