"""Limits and usage of a project, and the summary of its volumes."""
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

LIMITS = {'maxTotalVolumes': -1, 'maxTotalSnapshots': -1, 'maxTotalVolumeGigabytes': -1,
          'maxTotalBackups': -1, 'maxTotalBackupGigabytes': -1}
NOTHING_USED = {'totalVolumesUsed': 0, 'totalGigabytesUsed': 0, 'totalSnapshotsUsed': 0,
                'totalBackupsUsed': 0, 'totalBackupGigabytesUsed': 0}


class LimitsTest(base.ApiTestCase):

    def absolute(self, persona=None, query='', version='3.71'):
        reply = (persona or self.http.as_member).get(f'/limits{query}', version=version)
        self.assert_status(200, reply)
        self.assertEqual({'limits'}, reply.body.keys())
        self.assertEqual([], reply.body['limits']['rate'])
        return reply.body['limits']['absolute']

    def test_limits_of_project_without_volumes(self):
        for version in (None, '3.0', '3.71'):
            with self.subTest(version=version):
                self.assertEqual({**LIMITS, **NOTHING_USED}, self.absolute(version=version))

    def test_limits_show_usage_of_project(self):
        self.volume()
        self.volume(size=3)
        self.http.as_member.delete(f'/volumes/{self.volume(size=5)}')
        make.volume(self.http.database, size_gb=7, project_id=http.OTHER_PROJECT)
        used = {**NOTHING_USED, 'totalVolumesUsed': 2, 'totalGigabytesUsed': 4}
        for persona in (self.http.as_member, self.http.as_reader, self.http.as_admin):
            self.assertEqual({**LIMITS, **used}, self.absolute(persona))

    def test_limits_hide_usage_without_permission(self):
        self.volume()
        self.assertEqual(LIMITS, self.absolute(self.http.as_nobody))

    def test_admin_reads_limits_of_another_project_from_3_39(self):
        make.volume(self.http.database, size_gb=7, project_id=http.OTHER_PROJECT)
        query = f'?project_id={http.OTHER_PROJECT}'
        asked = ((self.http.as_admin, '3.39', 7), (self.http.as_admin, '3.38', 0),
                 (self.http.as_member, '3.39', 0))
        for persona, version, size_gb in asked:
            with self.subTest(version=version):
                self.assertEqual(size_gb, self.absolute(persona, query, version)[
                    'totalGigabytesUsed'])


class SummaryTest(base.ApiTestCase):

    def summary(self, query='', persona=None, version='3.71'):
        reply = (persona or self.http.as_member).get(f'/volumes/summary{query}', version=version)
        self.assert_status(200, reply)
        return reply.body['volume-summary']

    def test_summary_not_found_before_3_12(self):
        self.assert_status(404, self.http.as_member.get('/volumes/summary', version='3.11'))

    def test_summary_without_volumes(self):
        self.assertEqual({'total_count': 0, 'total_size': 0}, self.summary(version='3.12'))
        self.assertEqual({'total_count': 0, 'total_size': 0, 'metadata': {}}, self.summary())

    def test_summary_counts_volumes_sizes_and_metadata(self):
        self.volume(metadata={'a': '1', 'b': 'x'})
        self.volume(size=2, metadata={'a': '2'})
        self.volume(size=2, metadata={'a': '1'})
        make.volume(self.http.database, size_gb=7, project_id=http.OTHER_PROJECT,
                    metadata={'c': 'y'})
        self.assertEqual({'total_count': 3, 'total_size': 5}, self.summary(version='3.35'))
        self.assertEqual({'total_count': 3, 'total_size': 5,
                          'metadata': {'a': ['1', '2'], 'b': ['x']}}, self.summary())

    def test_summary_filters(self):
        self.volume(size=2, name='one', metadata={'a': '1'})
        self.volume(name='two', metadata={'a': '2'})
        self.assertEqual({'total_count': 1, 'total_size': 2, 'metadata': {'a': ['1']}},
                         self.summary('?name=one'))
        self.assertEqual(400, self.http.as_member.get('/volumes/summary?colour=red').status)
        self.assertEqual(0, self.summary('?colour=red', self.http.as_admin)['total_count'])

    def test_summary_all_tenants_for_admin_only(self):
        make.volume(self.http.database, size_gb=7, project_id=http.OTHER_PROJECT)
        self.assertEqual(0, self.summary('?all_tenants=1')['total_size'])
        self.assertEqual(7, self.summary('?all_tenants=1', self.http.as_admin)['total_size'])


class EncryptionTest(base.ApiTestCase):
    """Encryption of a volume as Nova requests it before each attach."""

    def test_encryption_key_id_null_for_unencrypted_volume(self):
        path = f'/volumes/{self.volume()}/encryption'
        for version in (None, '3.71'):
            for reply in (self.http.as_member.get(path, version=version),
                          self.http.as_reader.get(f'{path}/encryption_key_id')):
                self.assert_status(200, reply)
                self.assertEqual({'encryption_key_id': None}, reply.body)

    def test_encryption_of_unknown_volume_or_key_not_found(self):
        path = f'/volumes/{self.volume()}/encryption'
        self.assert_status(404, self.http.as_member.get(f'{path}/cipher'))
        self.assert_status(404, self.http.as_stranger.get(path))
        self.assert_status(404, self.http.as_member.get(f'/volumes/{base.ABSENT}/encryption'))
