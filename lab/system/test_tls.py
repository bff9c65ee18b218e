"""TLS to database, bus and cache by configuration only, as in doc/source/admin/tls.rst.

TLS of the API is tested in test_http_basic. The servers accept nothing but TLS, so that any
successful request proves it.
"""
import urllib.parse

import sqlalchemy as sa

from blockattach.testing import stack
from blockattach.tests.fixtures import certificates
from blockattach.tests.fixtures import memcached
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from lab.system import clouds


class ServersTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.authority = certificates.Authority()
        self.addCleanup(self.authority.close)
        self.stranger = certificates.Authority()
        self.addCleanup(self.stranger.close)

    def started(self, make):
        server = clouds.started(make, authority=self.authority)
        self.enterContext(server)
        return server

    def database(self, make):
        """Create a database on a server, and return the group [database]."""
        server = self.started(make)
        url = sa.make_url(server.url)
        made = sa.create_engine(url, isolation_level='AUTOCOMMIT', poolclass=sa.NullPool)
        with made.connect() as connection:
            connection.exec_driver_sql('CREATE DATABASE blockattach')
        own = urllib.parse.unquote(str(url.set(database='blockattach')))
        return f'[database]\nconnection = {own}\n'

    def bus(self):
        return (f'[DEFAULT]\ntransport_url = {self.started(servers.RabbitMQ).url}\n'
                '[oslo_messaging_rabbit]\nssl = true\n'
                f'ssl_ca_file = {self.authority.cert}\n')

    def check_works(self, settings):
        """Check that the service works, and that it refuses to start with another authority."""
        with self.assertRaises(stack.StackRefused) as caught:
            self.a_stack(settings=settings.replace(str(self.authority.cert),
                                                   str(self.stranger.cert)))
        self.assertEqual(1, caught.exception.status, caught.exception)
        api = base.Api(self.a_stack(settings=settings).endpoint)
        volume_id = self.a_volume(api)
        self.assertEqual(202, api.ask('DELETE', f'/volumes/{volume_id}')[0])
        self.assertTrue(base.wait_for(
            lambda: api.ask('GET', f'/volumes/{volume_id}')[0] == 404))

    def test_mariadb(self):
        self.check_works(self.database(servers.MariaDB))

    def test_postgresql(self):
        self.check_works(self.database(servers.PostgreSQL))

    def test_rabbitmq(self):
        self.check_works(self.bus())


class MemcachedTest(clouds.CloudTestCase):

    def test_validated_token_cached_over_tls(self):
        authority = certificates.Authority()
        self.addCleanup(authority.close)
        secured = clouds.started(memcached.Memcached, authority=authority)
        self.enterContext(secured)
        settings = self.settings().replace(self.memcached.url, secured.url).replace(
            'memcached_servers', 'memcache_tls_enabled = true\n'
            f'memcache_tls_cafile = {authority.cert}\nmemcached_servers')
        token = self.token('ann', 'shop')
        with (base.ForkedStack('fake', settings=settings) as one,
              base.ForkedStack('fake', settings=settings) as two):
            self.assertEqual(200, self.ask('GET', '/v3/volumes', token, service=one).status_code)
            self.keystone.stop()
            self.assertEqual(200, self.ask('GET', '/v3/volumes', token, service=two).status_code)
            secured.stop()
            self.keystone.start()
            self.assertEqual(200, self.ask('GET', '/v3/volumes', token, service=two).status_code)
