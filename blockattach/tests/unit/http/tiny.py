"""A tiny API on the real machinery: literal operations, served without a server."""
import dataclasses
import functools

import webob
from oslo_config import cfg
from oslo_policy import opts as policy_options

from blockattach.platform.http import auth
from blockattach.platform.http import dispatch
from blockattach.platform.http import middleware
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import V
from blockattach.platform.policy import enforcer
from blockattach.platform.telemetry import acts
from blockattach.storage import errors
from blockattach.storage.policy import attachments as policies
from blockattach.tests.fixtures import promises
from blockattach.wiring import rules as policy_rules

PROJECT = '9d1f3c3ae2b54b0a8a2f1c1f1f1f1f1f'
OTHER = '00000000000000000000000000000bad'
MEMBER = f'ann:{PROJECT}:member,reader'
READER = f'ann:{PROJECT}:reader'
NOBODY = f'ann:{PROJECT}:guest'
STRANGER = f'eve:{OTHER}:member,reader'
ADMIN = f'root:{OTHER}:admin'

LATEST = 'volume latest'


@dataclasses.dataclass(frozen=True)
class Thing:
    """What the tiny API is about."""

    id: str
    project_id: str = PROJECT


class Services:
    """What the handlers get; ``log`` is the order in which they were asked."""

    def __init__(self):
        self.log = []

    @property
    def database(self):
        return self

    def load(self, thing_id):
        self.log.append('target')
        if thing_id in ('none', 'action'):
            raise errors.AttachmentNotFound(attachment_id=thing_id)
        return Thing(thing_id)

    def answer(self, call, value):
        self.log.append('handler')
        return value


def load(context, database, thing_id):
    return database.load(thing_id)


def show(services, call):
    return services.answer(call, {'attachment': {
        'id': call.target.id, 'extension': call.extension and str(call.extension),
        'links': call.links(f'/attachments/{call.target.id}')}})


def create(services, call):
    return services.answer(call, {'attachment': call.body['attachment']})


def index(services, call):
    return services.answer(call, {'attachments': [], 'next': call.next_link('m')})


def complete(services, call):
    services.answer(call, None)


def boom(services, call):
    raise call_error(call)


def call_error(call):
    return {'bug': RuntimeError('the secret is 42'),
            'full': errors.BackendRefused('Unable to create attachment for volume (no room).'),
            'busy': errors.Conflict(reason='busy')}[call.path['id']]


CREATE = schema.wrapped('attachment', schema.obj(
    {'volume_uuid': schema.UUID, 'connector': {'type': ['object', 'null']}}, ['volume_uuid']))
CREATE_54 = schema.extend(
    CREATE, {'mode': {'type': 'string', 'enum': ['rw', 'ro']}}, at='attachment')
LIMIT = schema.obj({'limit': {'type': 'string', 'pattern': '^[0-9]+$'}}, additional=True)

OPERATIONS = (
    operation.Operation('GET', '/attachments', index, since=V(3, 27), policy=policies.GET_ALL,
                        query={V(3, 27): LIMIT}),
    operation.Operation('GET', '/attachments/detail', index, since=V(3, 27),
                        policy=policies.GET_ALL),
    operation.Operation('GET', '/attachments/{id}', show, since=V(3, 27), target=load,
                        policy=policies.GET,
                        refusal=lambda call: errors.AttachmentNotFound(
                            attachment_id=call.path['id'])),
    operation.Operation('POST', '/attachments', create, since=V(3, 27),
                        policy=policies.CREATE, status=202,
                        body={V(3, 27): CREATE, V(3, 54): CREATE_54}),
    operation.Operation('PUT', '/attachments/{id}', create, since=V(3, 27), target=load,
                        policy=policies.UPDATE, body={V(3, 27): CREATE}),
    operation.Operation('DELETE', '/attachments/{id}', complete, since=V(3, 27), target=load,
                        policy=policies.DELETE, status=202),
    operation.Operation('POST', '/attachments/{id}/action', complete, since=V(3, 44),
                        target=load, policy=policies.COMPLETE, action='os-complete', status=204),
    operation.Operation('POST', '/attachments/{id}/action', complete, since=V(3, 27),
                        target=load, policy=policies.DELETE, action='os-wipe', status=202,
                        body={V(3, 27): schema.wrapped('os-wipe', schema.obj())}),
    operation.Operation('GET', '/attachments/{id}/more', show, since=V(3, 27), target=load,
                        policy=policies.GET, extension=V(1, 0)),
    operation.Operation('GET', '/old', index, until=V(3, 10)),
    operation.Operation('GET', '/boom/{id}', boom),
    operation.Operation('GET', '/', index, public=True, root=True),
)


def enforcer_of(**overrides):
    """An enforcer without any file of the operator's."""
    conf = cfg.ConfigOpts()
    policy_options.set_defaults(conf)
    conf([], project='blockattach', default_config_files=[], default_config_dirs=[])
    conf.set_override('policy_dirs', [], group='oslo_policy')
    conf.set_override('policy_file', 'no-such-policy.yaml', group='oslo_policy')
    for name, value in overrides.items():
        conf.set_override(name, value, group='oslo_policy')
    return enforcer.Enforcer(conf, policy_rules.list_rules())


class Tiny:
    """The tiny API, and calls to it."""

    def __init__(self, operations=OPERATIONS, check_answers=False, authenticate=auth.claimed,
                 telemetry=None, **limits):
        self.services = Services()
        rules = enforcer_of()
        dispatcher = dispatch.Dispatcher(
            operations, self.services, policy=rules,
            authenticate=authenticate,
            negotiate=functools.partial(
                operation.negotiate,
                operation.Range(V(3, 0), V(3, 71)), operation.Range(V(1, 0), V(1, 0))),
            check=promises.Promises().check if check_answers else None, **limits)
        layers = (middleware.watch_request(telemetry or acts.Telemetry()),
                  middleware.answer_faults)
        self.app = middleware.application(layers, dispatcher)

    def call(self, method, path, body=None, *, token=MEMBER, version=LATEST, headers=None,
             json=None, content_type='application/json'):
        """Ask, as this persona at this version."""
        request = webob.Request.blank(path, method=method, headers=headers or {})
        if token is not None:
            request.headers['X-Auth-Token'] = token
        if version is not None:
            request.headers['OpenStack-API-Version'] = version
        if json is not None:
            request.json = json
        if body is not None:
            request.body = body
        if content_type is None:
            request.environ.pop('CONTENT_TYPE', None)
        elif body is not None or json is not None:
            request.headers['Content-Type'] = content_type
        return request.get_response(self.app)


def fault(response):
    """Key, code and message of a failure."""
    (key, inner), = response.json.items()
    return key, inner['code'], inner['message']
