"""Modules that a serving process has loaded, without any that it does not need.

Imports are most of the memory and of the start time of a process. A library that few processes
need is imported in the function that uses it. Modules that all processes need are in no row.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import polling
from blockattach.tests.fixtures import servers

# Program that starts a command's process and prints its loaded modules.
START = """
import importlib, json, os, sys
from oslo_config import cfg
name, file = sys.argv[1:]
if name == 'wsgi':
    os.environ['BLOCKATTACH_CONFIG_FILES'] = file
    from blockattach import wsgi
    said = []
    body = wsgi.application(
        {'REQUEST_METHOD': 'GET', 'PATH_INFO': '/v3/volumes', 'QUERY_STRING': '',
         'SCRIPT_NAME': '', 'SERVER_NAME': 'here', 'SERVER_PORT': '80', 'wsgi.input': sys.stdin,
         'wsgi.url_scheme': 'http', 'wsgi.errors': sys.stderr, 'REMOTE_ADDR': '127.0.0.1'},
        lambda status, headers: said.append(status))
    assert said == ['200 OK'], (said, b''.join(body))
else:
    from blockattach.wiring import configuration
    conf = cfg.ConfigOpts()
    process = importlib.import_module(f'blockattach.cmd.{name}').load(conf)
    configuration.configure(conf, ['--config-file', file], name)
    process.start()
    process.announce()
print(json.dumps([name for name, module in sys.modules.items() if module is not None]), flush=True)
# What runs is not waited for: the test is about how it begins.
os._exit(0)
"""

# Program that loads the modules that WSGI server processes share before a fork.
LOAD = """
import gc, json, os, sys, threading
os.environ['BLOCKATTACH_CONFIG_FILES'] = sys.argv[1]
from blockattach import wsgi
from blockattach.storage.api import routes
wsgi.load()
print(json.dumps({
    'driver': 'pymysql' in sys.modules, 'threads': threading.active_count(),
    'frozen': gc.get_freeze_count() > 0,
    'compiled': all('checkers' in vars(row) for family in routes.FAMILIES for row in family)}))
"""

CONFIGURATION = """
[DEFAULT]
state_path = {folder}
transport_url = inproc://footprint/
[database]
connection = {database}
[api]
port = {port}
[health]
file = {folder}/health
[compute]
kind = fake
[volume]
enabled_backends = disks
[disks]
store = fake
target = fake
"""

# Modules that no process loads, with the reason
NOWHERE = {
    'alembic': 'the check of the schema version does not need it, and few processes migrate',
    'mako': 'alembic creates new revisions with it',
    'pygments': 'mako highlights its messages with it',
    'taskflow': 'loaded for the first volume that is placed',
    'networkx': 'taskflow loads 280 modules of it for its graphs',
    'oslo_reports.report': 'loaded for the first report of the process state',
    'prometheus_client': 'loaded if [metrics] sets a port',
    'jsonschema': 'loaded to describe the first invalid value, which fastjsonschema finds',
    'keystoneauth1': 'loaded if [nova] is set, or with auth_strategy keystone',
    'keystoneclient': 'client of keystonemiddleware',
    'keystonemiddleware': 'loaded if [api] auth_strategy is keystone',
    'oslo_cache': 'cache of keystonemiddleware',
    'blockattach.platform.http.basic_auth': 'loaded if [api] auth_strategy is http_basic',
    'oslo_limit': 'loaded if [quota] quota_driver is unified_limits',
    'openstack': 'client of oslo.limit',
    'castellan': 'loaded if [DEFAULT] seal_key_ids names keys',
    'rtslib_fb': 'only the privileged daemon uses LIO',
    'eventlet': 'the service uses native threads',
    'matplotlib': 'networkx would load it to draw',
    'numpy': 'networkx would load it to calculate',
    'pytest': 'tests',
    'blockattach.testing': 'tests of consumers',
    'blockattach.tests': 'tests',
    'blockattach.conformance': 'tests of drivers',
}

_NO_HTTP = dict.fromkeys(('webob', 'httptools', 'oslo_middleware', 'fastjsonschema',
                          'blockattach.platform.http', 'blockattach.platform.webserver',
                          'blockattach.storage.api'), 'the process serves no HTTP')
_NO_BACKEND = dict.fromkeys(
    ('blockattach.storage.drivers', 'blockattach.storage.volume', 'oslo_privsep'),
    'the process has no backend')
_NO_PLACES = {'blockattach.storage.scheduler': 'the process places no volumes'}
_NO_POLICY = {'oslo_policy.policy': 'the process enforces no policy',
              'requests': 'remote checks of oslo.policy',
              'blockattach.storage.control': 'the process executes no requests of clients'}
_NO_DATABASE = {**dict.fromkeys(('sqlalchemy', 'oslo_db.sqlalchemy', 'blockattach.platform.db',
                                 'blockattach.storage.db'), 'the process has no database'),
                'cryptography': 'the process stores no credentials'}
_OF_THE_COMPUTE_API = dict.fromkeys(
    ('blockattach.compute.acts', 'blockattach.compute.api', 'blockattach.compute.conductor',
     'blockattach.compute.storage', 'blockattach.compute.store', 'blockattach.compute.policy',
     'blockattach.storage.rpc.attachments', 'blockattach.wiring.compute_api', 'routes'),
    'only the compute API executes acts on servers')
_OTHER_KINDS = {'blockattach.compute.hosts.qemu': 'loaded with [compute] kind = qemu',
                'blockattach.compute.hosts.local': 'loaded with [compute] kind = host',
                'os_brick': 'loaded with [compute] kind = host'}

# Modules that the named process does not load in addition, with the reason
NOT_HERE = {
    'wsgi': {**_NO_BACKEND, **_NO_PLACES, 'httptools': 'it runs under another WSGI server'},
    'api': {**_NO_BACKEND, **_NO_PLACES},
    'control': {**_NO_HTTP, **_NO_BACKEND, **_NO_PLACES},
    'scheduler': {**_NO_HTTP, **_NO_BACKEND, **_NO_POLICY},
    'volume': {**_NO_HTTP, **_NO_PLACES, **_NO_POLICY},
    'allinone': {},
    'compute': {**_NO_HTTP, **_NO_BACKEND, **_NO_PLACES, **_NO_POLICY, **_NO_DATABASE,
                **_OF_THE_COMPUTE_API, **_OTHER_KINDS},
}

# Maximum number of modules, about a twelfth above the number with Python 3.11, since Python and
# its libraries also grow. A new library is found by the tables above, or deserves a look.
MOST = {
    'wsgi': 1320,
    'api': 1345,
    'control': 1090,
    'scheduler': 940,
    'volume': 970,
    'allinone': 1420,
    'compute': 670,
}


def is_loaded(module, loaded):
    """Return True if the module or one below it is loaded."""
    return any(name == module or name.startswith(f'{module}.') for name in loaded)


@exhaustive.only
class FootprintTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.rows = database.DatabaseFixture()
        cls.addClassCleanup(cls.rows.close)

    def said(self, database_url, *program):
        """Run a program with a configuration file, and return the JSON that it prints last."""
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            configuration = f'{folder}/blockattach.conf'
            with open(configuration, 'w', encoding='utf-8') as file:
                file.write(CONFIGURATION.format(folder=folder, database=database_url,
                                                port=servers.free_port()))
            done = subprocess.run(
                [sys.executable, '-W', 'ignore', '-c', *program, configuration],
                capture_output=True, text=True, timeout=polling.LIMIT, check=False,
                env={name: value for name, value in os.environ.items()
                     if not name.startswith('OS_')})
        self.assertEqual(0, done.returncode, done.stderr)
        # The process may print other lines before.
        return json.loads(done.stdout.splitlines()[-1])

    def check(self, process):
        loaded = self.said(self.rows.url, START, process)
        needless = {module: reason
                    for module, reason in {**NOWHERE, **NOT_HERE[process]}.items()
                    if is_loaded(module, loaded)}
        self.assertEqual({}, needless)
        self.assertLessEqual(len(loaded), MOST[process])

    def test_wsgi_footprint(self):
        self.check('wsgi')

    def test_api_footprint(self):
        self.check('api')

    def test_control_footprint(self):
        self.check('control')

    def test_scheduler_footprint(self):
        self.check('scheduler')

    def test_volume_footprint(self):
        self.check('volume')

    def test_allinone_footprint(self):
        self.check('allinone')

    def test_compute_footprint(self):
        self.check('compute')

    def test_shared_modules_loaded_before_fork(self):
        """Nothing is opened, since no server listens on the port."""
        self.assertEqual(
            {'driver': True, 'threads': 1, 'frozen': True, 'compiled': True},
            self.said(f'mysql+pymysql://127.0.0.1:{servers.free_port()}/blockattach', LOAD))

    def test_invalid_configuration_left_to_each_process(self):
        for url in ('nosuch://127.0.0.1/blockattach', 'no URL'):
            with self.subTest(url=url):
                self.assertTrue(self.said(url, LOAD)['compiled'])

    def test_submodules_of_module_found(self):
        self.assertTrue(is_loaded('a.b', ['a', 'a.b.c']))
        self.assertFalse(is_loaded('a.b', ['a', 'a.bc']))
