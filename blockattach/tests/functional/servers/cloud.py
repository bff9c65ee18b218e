"""Small cloud in one thread: Block Storage over HTTP, a compute API, and agents in memory.

Work that continues after a response waits until `Cloud.settle`.
"""
import functools
import json
import unittest
import uuid

import oslo_messaging
import requests
import webob
from requests import adapters

from blockattach.compute import conf as compute_conf
from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.compute.hosts import fake
from blockattach.compute.store import models
from blockattach.compute.store import store
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.rpc import calling
from blockattach.platform.rpc import contract
from blockattach.platform.telemetry import acts
from blockattach.storage.control import endpoint
from blockattach.tests.fixtures import bus
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import in_process
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import notifications
from blockattach.wiring import compute_agent
from blockattach.wiring import compute_api

MODES = 'compute 2.100, blockattach 1.0'
LATEST = 'compute 2.100'
ACTS = ('spawn', 'define', 'start', 'stop', 'reboot', 'destroy', 'plug', 'unplug', 'swap',
        'receive', 'send')
"""Methods of hosts."""
ABSENT = object()
OLD_VERSION = '1.0'
"""Version of the RPC interface of old agents."""
ENDPOINT = 'http://127.0.0.1:8776/v3'
# Account of the compute API, and the part of Keystone that it needs.
ACCOUNT = {'auth_url': 'http://127.0.0.1:5000', 'username': 'compute', 'password': 'password'}
ACCOUNT_TOKEN = 'compute:service:admin,service'
KEYSTONE_PATH = '/v3/auth/tokens'
ISSUED = {'token': {'methods': ['password'], 'expires_at': '9999-01-01T00:00:00.000000Z'}}
REFUSAL = b'{"badRequest": {"code": 400, "message": "the test says so"}}'
MOST = 1000
"""Page size of the attachment list over the bus."""


class Death(BaseException):
    """Death of the compute API's process, which no code of the process catches."""


class Failure(Exception):
    """Failure that a function of `Cutting` raises.

    Before a request, the request is refused. After a request, its response is lost.
    """


class Cutting:
    """Counter of the compute API's requests to others, which ends the process at one of them.

    :ivar at: index of the request after which the process ends, minus 0.5 for before it, or None
    :ivar asked: requests that were sent
    """

    def __init__(self):
        self.begin()

    def begin(self, at=None, hang=None):
        """Start counting.

        :param hang: function that runs in place of a death, while the process hangs
        """
        self.at, self.asked, self._hang, self._hangs = at, [], hang, False

    def ahead(self):
        """Hang before a request, which the process sends when it resumes."""
        if self._hang is not None and self.at == len(self.asked) - 0.5:
            self.at = None
            self._hang()

    def behind(self, what, answered=True):
        """Count a request that was carried out, and end the process or let it hang.

        :param answered: False if the response is still to come, so that `wake` is called later
        """
        self.asked.append(what)
        if self.at == len(self.asked) - 1:
            self.at = None
            if self._hang is None:
                raise Death
            self._hangs = True
        if answered:
            self.wake()

    def wake(self):
        """Run the function of the hang, and resume."""
        if self._hangs:
            self._hangs = False
            self._hang()


class Direct(adapters.BaseAdapter):
    """Adapter that carries requests to a WSGI application in this thread."""

    def __init__(self, application, cutting):
        super().__init__()
        self._application = application
        self._cutting = cutting

    def send(self, request, **_settings):
        """Return the response of the application."""
        asked = webob.Request.blank(request.path_url, method=request.method,
                                    headers=dict(request.headers), base_url=ENDPOINT[:-3])
        if request.body is not None:
            asked.body = request.body if isinstance(request.body, bytes) else request.body.encode()
        if request.path_url == KEYSTONE_PATH:
            return self._answer(request, 201, json.dumps(ISSUED).encode(),
                                {'X-Subject-Token': ACCOUNT_TOKEN})
        try:
            self._cutting.ahead()
        except Failure:
            return self._answer(request, 400, REFUSAL, {'Content-Type': 'application/json'})
        answered = asked.get_response(self._application)
        found = self._answer(request, answered.status_code, answered.body, answered.headers)
        try:
            self._cutting.behind(f'{request.method} {request.path_url}')
        except Failure as exc:
            raise requests.ConnectionError('the answer is lost') from exc
        return found

    @staticmethod
    def _answer(request, status, body, headers):
        found = requests.Response()
        found.status_code, found.url, found.request = status, request.url, request
        found._content = body
        found.headers.update(headers)
        return found

    def close(self):
        ...


def carrying(application, cutting):
    """Return a session that carries the compute API's requests to Block Storage in this thread."""
    session = requests.Session()
    session.mount('http://', Direct(application, cutting))
    return session


class CutClient(bus.RpcClient):
    """Client of the agents. The compute API may hang before a call and after its answer."""

    _version = OLD_VERSION

    def prepare(self, server=None, fanout=False, version=None, **_waiting):
        prepared = CutClient(self._bus, self._interface, server or self._server,
                             fanout or self._fanout)
        prepared._version = version or self._version
        return prepared

    def call(self, ctxt, method, **arguments):
        if self._server in self._bus.old and self._version != OLD_VERSION:
            raise oslo_messaging.RPCVersionCapError(version=self._version,
                                                    version_cap=OLD_VERSION)
        if arguments.get('name', method) in (*ACTS, 'spawn_all'):
            try:
                self._bus.cutting.ahead()
            except Failure as exc:
                raise errors.HostRefused(reason='the test says so') from exc
        answer = super().call(ctxt, method, **arguments)
        try:
            self._bus.cutting.wake()
        except Failure as exc:
            raise oslo_messaging.MessagingTimeout('the answer is lost') from exc
        return answer


class CutBus(bus.DirectBus):

    def __init__(self, cutting, old, *arguments):
        super().__init__(*arguments)
        self.cutting, self.old = cutting, old

    def client(self, interface, server=None):
        return calling.Client(
            CutClient(self, interface.TOPIC), interface, server, self._settings, self._clock,
            lambda ctxt: None, self._telemetry, self._while_waiting)


class CutControl(endpoint.AttachmentsEndpoint):
    """Block Storage on the bus. The compute API may end after each answer.

    Work that a call has started is finished before the answer.
    """

    def __init__(self, storage, cutting):
        super().__init__(storage.services.policy, storage.services.attachments, MOST)
        self._storage = storage
        for method in contract.methods(type(self)):
            setattr(self, method, self._behind(cutting, method, getattr(self, method)))

    def _behind(self, cutting, name, act):
        @functools.wraps(act)
        def acting(*arguments, **more):
            cutting.ahead()
            answer = act(*arguments, **more)
            self._storage.work.settle()
            cutting.behind(f'{self.TOPIC}.{name}')
            return answer
        return acting


class CutHost(fake.FakeHost):
    """Host after each of whose methods the compute API may end.

    Like a real host, it logs in only to volumes to which Block Storage has granted it access.
    """

    def __init__(self, name, cloud, cutting, target):
        super().__init__(name, cloud)
        self._target = target
        for method in ACTS:
            setattr(self, method, self._behind(cutting, method, getattr(self, method)))

    def _behind(self, cutting, name, act):
        def acting(*arguments):
            self._log_in(arguments)
            answer = act(*arguments)
            cutting.behind(f'{name} on {self._name}', answered=False)
            return answer
        return acting

    def _log_in(self, arguments):
        wanted = []
        for one in arguments:
            if isinstance(one, base.Guest):
                wanted += [(one.server_id, disk.volume_id) for disk in one.disks]
            if isinstance(one, base.Disk):
                wanted.append((arguments[0], one.volume_id))
        admitted = {(export.volume_id, grant.initiator)
                  for export in self._target.exports() for grant in export.grants}
        for server_id, volume_id in wanted:
            if (volume_id, self.connector(server_id)['initiator']) not in admitted:
                raise errors.HostRefused(reason=f'cannot log in to volume {volume_id}')


class Cloud:
    """Cloud that runs from its construction until `close`.

    :ivar rules: policy rules of the operator, which the next compute API reads
    """

    def __init__(self, hosts=('host-a', 'host-b'), old=(), transport='http', account=False):
        """Build and start the cloud.

        :param account: True if the compute API has an account, as with Keystone
        :param old: hosts whose agents speak `OLD_VERSION`
        :param transport: transport of requests for attachments
        """
        # The deadline of a call over the bus is compared by both services, so they share a clock.
        self.clock = clock.ManualClock()
        self.storage = http.ApiFixture(self.clock)
        self.cutting = Cutting()
        self.notified = notifications.Heard()
        self.work = bus.Work()
        self._transport, self._account = transport, account
        self.rules = {}
        conf = self.configuration()
        self.bus = CutBus(self.cutting, old, self.work, rpc_conf.settings(conf), self.clock,
                          acts.Telemetry(self.clock))
        self.bus.server(CutControl(self.storage, self.cutting), 'control-1').start()
        self.engine = engine = database.open_engine('sqlite://')
        clock.of_sqlite(engine, self.clock)
        # create_all builds the same tables as the migrations, which take longer than most tests.
        models.metadata.create_all(engine)
        self.store = store.Store(engine, self.clock, compute_conf.settings(conf).down_seconds)
        self.api = self.build_api(conf, self.work)
        self.api.server.start()
        self.conductor = self.api.conductor
        self.fakes = fake.Cloud()
        self.agents = {}
        for name in hosts:
            self.start_agent(self.configuration(
                agent_version=OLD_VERSION) if name in old else conf, name)

    def configuration(self, **changed):
        """Return the configuration of each process. ``changed`` are [compute] options."""
        return in_process.configuration({
            'block_storage': {'endpoint_override': ENDPOINT, 'transport': self._transport,
                              **(ACCOUNT if self._account else {})},
            'compute': changed})

    def build_api(self, conf, work, owner='compute-api.1', cutting=None):
        """Build a compute API on the same database.

        :param work: queue of the work that continues after its responses
        """
        return compute_api.build_api(
            conf, self.bus, self.store, in_process.policy(self.rules), in_process.Later(work),
            self.clock, acts.Telemetry(self.clock), 'compute-api', owner,
            self.notified, carrying(self.storage, cutting or self.cutting))

    def restart_api(self, **changed):
        """Replace the compute API by a new process with changed options."""
        self.api.server.stop()
        self.api = self.build_api(self.configuration(**changed), self.work, 'compute-api.2')
        self.api.server.start()
        self.conductor = self.api.conductor

    def start_agent(self, conf, name):
        """Start an agent, and wait until it has reported itself."""
        host = CutHost(name, self.fakes, self.cutting, self.storage.manager.backend.fake_target)
        built = compute_agent.build_agent(conf, self.bus, host, name,
                                          in_process.AtOnce())
        built.server.start()
        built.reporter.report()
        self.agents[name] = built
        self.settle()

    def settle(self):
        """Run the queued work."""
        self.work.settle()

    def later(self, seconds=120):
        """Advance the clock and run the periodic tasks."""
        self.clock.advance(seconds)
        for agent in self.agents.values():
            agent.reporter.report()
        self.settle()
        self.conductor.look()
        self.settle()

    def close(self):
        self.store.close()
        self.storage.close()


class ComputeTestCase(unittest.TestCase):

    HOSTS = ('host-a', 'host-b')
    OLD = ()
    TRANSPORT = 'http'
    ACCOUNT = False

    def setUp(self):
        super().setUp()
        self.cloud = Cloud(self.HOSTS, old=self.OLD, transport=self.TRANSPORT,
                           account=self.ACCOUNT)
        self.addCleanup(self.cloud.close)
        self.hosts = self.cloud.fakes.hosts

    def ask(self, method, path, body=None, version=LATEST, roles='admin,member,reader',
            project=http.PROJECT, headers=()):
        """Send a request to the compute API and return the status and the body."""
        request = webob.Request.blank(f'/v2.1{path}', method=method, headers={
            'OpenStack-API-Version': version,
            'X-Auth-Token': f'{make.USER}:{project}:{roles}', **dict(headers)})
        if body is not None:
            request.body = json.dumps(body).encode()
            request.content_type = 'application/json'
        response = request.get_response(self.cloud.api.application)
        return response.status_code, response.json_body if response.body else None

    def asked(self, status, method, path, body=None, **more):
        """Send a request, check its status, and return the body."""
        found, answer = self.ask(method, path, body, **more)
        self.assertEqual(status, found, answer)
        return answer

    def volume(self, multiattach=False, size=1):
        """Create a volume and return its id."""
        fields = {'size': size}
        if multiattach:
            fields['volume_type'] = make.volume_type(self.cloud.storage.database,
                                                     multiattach=True).name
        made = self.cloud.storage.as_member.post('/volumes', {'volume': fields})
        self.assertEqual(202, made.status, made.body)
        self.cloud.storage.work.settle()
        return made.body['volume']['id']

    def create(self, *volumes, settle=True, status=202, **fields):
        """Create a server with volumes, the first one as its root disk, and return its id.

        A refused request returns the body.
        """
        mapping = [{'uuid': one, 'source_type': 'volume', 'destination_type': 'volume',
                    'boot_index': number if number == 0 else -1}
                   if isinstance(one, str) else one for number, one in enumerate(volumes)]
        answer = self.asked(status, 'POST', '/servers', {'server': {
            'name': 'web', 'imageRef': '' if volumes else 'image', 'flavorRef': '1',
            'networks': 'none', 'block_device_mapping_v2': mapping, **fields}}, version=MODES)
        if settle:
            self.cloud.settle()
        return answer['server']['id'] if 'server' in answer else answer

    def server(self, server_id):
        return self.asked(200, 'GET', f'/servers/{server_id}')['server']

    def act(self, server_id, name, body=None, status=202, settle=True, **more):
        answer = self.asked(status, 'POST', f'/servers/{server_id}/action', {name: body}, **more)
        if settle:
            self.cloud.settle()
        return answer

    def attach(self, server_id, volume_id, status=200, settle=True, version=MODES, **more):
        answer = self.asked(status, 'POST', f'/servers/{server_id}/os-volume_attachments', {
            'volumeAttachment': {'volumeId': volume_id, **more}}, version=version)
        if settle:
            self.cloud.settle()
        return answer

    def detach(self, server_id, volume_id, status=202, settle=True):
        answer = self.asked(status, 'DELETE',
                            f'/servers/{server_id}/os-volume_attachments/{volume_id}')
        if settle:
            self.cloud.settle()
        return answer

    def volumes(self, server_id):
        """Return the attach modes of a server's volumes by volume id."""
        return {one['volumeId']: one['attach_mode'] for one in self.asked(
            200, 'GET', f'/servers/{server_id}/os-volume_attachments',
            version=MODES)['volumeAttachments']}

    def attachments(self, volume_id):
        """Return server, host, mode and status of each attachment of a volume."""
        found = self.cloud.storage.as_admin.get(
            f'/attachments/detail?volume_id={volume_id}&all_tenants=1',
            version='3.71, blockattach 1.0').body['attachments']
        return sorted(((one['instance'], one['host'], one['mode'], one['status'])
                       for one in found), key=str)

    def status_of_volume(self, volume_id):
        return self.cloud.storage.as_admin.get(f'/volumes/{volume_id}').body['volume']['status']


def new_id():
    return str(uuid.uuid4())
