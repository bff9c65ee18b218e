"""Random requests, which never get a 5xx response and change nothing if rejected."""
import itertools
import os
import random

from blockattach.tests.api import base
from blockattach.tests.api import requests
from blockattach.tests.fixtures import make

REQUESTS = 2000
MOST_VOLUMES = 20
KEPT_TYPES = ("'__DEFAULT__'", f"'{make.MULTIATTACH_TYPE}'")
TABLES = ('volumes', 'attachments', 'grants', 'volume_types', 'volume_type_extra_specs')


class RandomRequestsTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or random.randrange(2 ** 32))
        print(f'{self.id()}: BLOCKATTACH_TEST_SEED={seed}')
        self.chance = random.Random(seed)
        self.requests = requests.Requests(self.chance)
        self.personae = [self.http.as_admin, self.http.as_member, self.http.as_member,
                         self.http.as_reader, self.http.as_nobody, self.http.as_stranger,
                         self.http.as_service]

    def all_rows(self):
        """Return all rows that requests can change, by table."""
        with self.http.database.reader() as connection:
            return {table: sorted(map(repr, connection.exec_driver_sql(f'SELECT * FROM {table}')))
                    for table in TABLES}

    def refill(self):
        """Ensure that some volumes and attachments exist, but not too many, and return all rows.
        """
        found = self.http.as_admin.get('/volumes?all_tenants=1').body['volumes']
        if not 2 <= len(found) <= MOST_VOLUMES:
            for one in found:
                self.http.as_admin.delete(f'/volumes/{one["id"]}?force=true')
            plain, shared = self.volume(), self.volume(multiattach=True)
            self.attached(shared)
            self.reserve(plain)
        rows = self.all_rows()
        # The service needs its default type, and this test needs the multiattach type.
        self.requests.ids = {
            noun: [row.split("'")[1] for row in rows[table]
                   if not any(name in row for name in KEPT_TYPES)]
            for noun, table in (('volumes', 'volumes'), ('attachments', 'attachments'),
                                ('types', 'volume_types'))}
        return rows

    def test_random_requests_get_no_server_error(self):
        before = self.refill()
        statuses = {}
        for count, sent in enumerate(itertools.islice(self.requests, REQUESTS)):
            method, path, body, version, headers = sent
            reply = self.chance.choice(self.personae).send(method, path, body, version, headers)
            statuses[reply.status] = statuses.get(reply.status, 0) + 1
            description = f'request {count}: {sent}: {reply.status} {reply.text}'
            self.assertLess(reply.status, 500, description)
            if reply.status >= 400:
                self.assertEqual(before, self.all_rows(), description)
            elif method not in ('GET', 'HEAD'):
                before = self.refill()
        print(f'{self.id()}: answers by status: {statuses}')
        # Requests that are all rejected would prove nothing.
        self.assertLessEqual({200, 202, 400, 403, 404}, statuses.keys())
