"""Base class of tests of the service with a Keystone server."""
import os
import unittest

import requests

from blockattach.tests.fixtures import keystone
from blockattach.tests.fixtures import memcached
from blockattach.tests.fixtures import nova
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base

SECONDS = 180
ELSEWHERE = 'RegionTwo'


def started(make, **options):
    """Create a server. Without its programs the test is skipped, or fails in CI."""
    try:
        server = make(**options)
    except servers.CannotStart as exc:
        if os.environ.get('CI') == 'true':
            raise
        print(exc)
        raise unittest.SkipTest(str(exc)) from exc
    return server


class CloudTestCase(base.StackTestCase):
    """Keystone, memcached, a stand-in for Nova and the service, shared by the tests of a class.

    Users: ann (member) and rae (reader) of project shop, eve (member) of another project, and nova
    with the role service. With ``NEEDS_EXPIRED``, ``expired`` is an expired token of ann, for
    which Keystone is started three times.
    """

    NEEDS_EXPIRED = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.keystone = started(keystone.Keystone)
        cls.addClassCleanup(cls.keystone.close)
        cls.memcached = started(memcached.Memcached)
        cls.enterClassContext(cls.memcached)
        cls.keystone.start()
        cls.passwords = {'ann': cls.keystone.person('ann', 'shop', 'member')}
        if cls.NEEDS_EXPIRED:
            # Only this token has the short lifetime. Tokens of requests could expire on the way.
            cls.restart_keystone(token_seconds=1)
            cls.expired = cls.token('ann', 'shop')
            cls.restart_keystone()
        cls.passwords |= {
            'admin': cls.keystone.password,
            'rae': cls.keystone.person('rae', 'shop', 'reader'),
            'eve': cls.keystone.person('eve', 'elsewhere', 'member'),
            'nova': cls.keystone.person('nova', 'service', 'service'),
            'blockattach': cls.keystone.person('blockattach', 'service', 'service')}
        cls.shop = cls.keystone.project('shop')
        cls.nova = cls.enterClassContext(nova.NovaStandIn())
        cls.stack = cls.enterClassContext(base.ForkedStack('fake', settings=cls.settings()))
        cls.keystone.service('cinderv3', 'volumev3', cls.stack.endpoint + '/%(project_id)s')
        cls.keystone.service('cinder', 'block-storage', cls.stack.endpoint, ELSEWHERE)

    @classmethod
    def restart_keystone(cls, **configuration):
        cls.keystone.stop()
        cls.keystone.configure(**configuration)
        cls.keystone.start()

    @classmethod
    def settings(cls):
        return ('[api]\nauth_strategy = keystone\n'
                + cls.keystone.authtoken('blockattach', cls.passwords['blockattach'], 'service')
                + f'memcached_servers = {cls.memcached.url}\n'
                'memcache_security_strategy = ENCRYPT\nmemcache_secret_key = of a test\n'
                # The client ignores a memcached server for minutes after a timeout.
                f'memcache_pool_socket_timeout = {SECONDS}\n'
                f'[nova]\nendpoint_override = {cls.nova.url}\n')

    @classmethod
    def cloud(cls, name, project, **facts):
        """Return a user's connection of openstacksdk."""
        return cls.keystone.cloud(name, cls.passwords[name], project, **facts)

    @classmethod
    def token(cls, name, project):
        return cls.cloud(name, project).auth_token

    def ask(self, method, path, token=None, body=None, service_token=None, service=None):
        """Send a request without a client library and return the response."""
        headers = {'X-Auth-Token': token, 'X-Service-Token': service_token,
                   'OpenStack-API-Version': 'volume 3.71'}
        return requests.request(
            method, (service or self.stack).url + path, json=body, timeout=SECONDS,
            headers={name: value for name, value in headers.items() if value is not None})
