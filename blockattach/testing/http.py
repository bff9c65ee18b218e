"""The whole API over WSGI, on a real database, with the rest of the service in this process.

    http = ApiFixture()
    made = http.as_member.post('/volumes', {'volume': {'size': 1}}, version='3.71')
    assert made.status == 202

What goes on after an answer (a volume is placed and made) has happened when the next request is
sent; `hold` delays it. Every answer is held against its schema; one that is wrong ends the test.
"""
import contextlib
import dataclasses
import functools
import json
import tempfile
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import Self

import webob
from oslo_config import cfg

from blockattach import clock as clocks
from blockattach.api import app
from blockattach.api import services as api_services
from blockattach.conf import api as api_conf
from blockattach.conf import control as control_conf
from blockattach.conf import nova as nova_conf
from blockattach.conf import scheduler as scheduler_conf
from blockattach.conf import service as service_conf
from blockattach.control import attachments
from blockattach.control import backend_calls
from blockattach.control import detach_rule
from blockattach.control import legacy
from blockattach.control import log_levels
from blockattach.control import moves
from blockattach.control import parts
from blockattach.control import pool_check
from blockattach.control import repeats
from blockattach.control import reservations
from blockattach.control import reset
from blockattach.control import volume_parts
from blockattach.control import volumes
from blockattach.db import attachment_queries
from blockattach.db import volume_queries
from blockattach.http import auth
from blockattach.nova import client as nova_client
from blockattach.policy import enforcer
from blockattach.policy import options
from blockattach.rpc import notifications
from blockattach.testing import database
from blockattach.testing import in_process
from blockattach.testing import make
from blockattach.testing import manager

PROJECT = make.PROJECT
OTHER_PROJECT = '0d52e1f4c5a24a3a8a0f3f6d4f1f2b11'
USER = make.USER
HOST = 'storage-1@fake'
API_HOST = 'control-1'
POOL = f'{HOST}#pool'
LATEST = '3.71'
_SERVICE = service_conf.ServiceSettings(service_down_time=in_process.DOWN_AFTER)


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """An answer. ``body`` is what its JSON says, None if it has none."""

    status: int
    headers: Mapping[str, str]
    body: Any
    text: str

    @property
    def fault(self) -> tuple[str, str]:
        """Of a failure: the key of its body, and its sentence."""
        (key, inner), = self.body.items()
        return key, inner['message']


class Persona:
    """Somebody with roles in a project, who sends requests."""

    def __init__(self, fixture: 'ApiFixture', roles: str, project_id: str = PROJECT,
                 service_token: bool = False) -> None:
        self.project_id = project_id
        self._fixture = fixture
        self.token = f'{USER}:{project_id}:{roles}'
        self._headers = {'X-Auth-Token': self.token}
        if service_token:
            self._headers['X-Service-Token'] = f'{USER}:service:service'

    def get(self, path: str, version: str | None = LATEST, **headers: str) -> Reply:
        """Send a GET; ``path`` from the noun on, with its query string."""
        return self.send('GET', path, None, version, headers)

    def post(self, path: str, body: Any, version: str | None = LATEST, **headers: str) -> Reply:
        """Send a POST of JSON; a body of bytes is sent as it is."""
        return self.send('POST', path, body, version, headers)

    def put(self, path: str, body: Any, version: str | None = LATEST, **headers: str) -> Reply:
        """Send a PUT of JSON; a body of bytes is sent as it is."""
        return self.send('PUT', path, body, version, headers)

    def delete(self, path: str, version: str | None = LATEST, **headers: str) -> Reply:
        """Send a DELETE."""
        return self.send('DELETE', path, None, version, headers)

    def send(self, method: str, path: str, body: Any = None, version: str | None = LATEST,
             headers: Mapping[str, str] | None = None) -> Reply:
        """Send any request at a microversion (None: without naming one)."""
        sent = {**self._headers, **(headers or {})}
        if version is not None:
            sent['OpenStack-API-Version'] = f'volume {version}'
        request = webob.Request.blank(f'/v3/{self.project_id}{path}', method=method,
                                      headers=sent)
        if body is not None:
            request.body = body if isinstance(body, bytes) else json.dumps(body).encode()
            request.content_type = 'application/json'
        return self._fixture.answer(request)


class ApiFixture:
    """The API with all that is behind it, from construction until `close`.

    ``manager`` is the volume manager whose backend takes faults; ``work`` what waits to go on.
    """

    def __init__(self, clock: clocks.Clock | None = None,
                 rules: Mapping[str, str] | None = None,
                 control: control_conf.ControlSettings | None = None,
                 nova: nova_conf.NovaSettings | None = None,
                 told: notifications.Notifications | None = None,
                 scheduling: scheduler_conf.SchedulerSettings | None = None,
                 kind: str = database.SQLITE, **settings: Any) -> None:
        """
        :param rules: an operator's rules, over the defaults
        :param nova: who knows which servers use what; without it everybody may detach anything
        :param told: hears of what happens to attachments
        :param scheduling: filters and weighers; default: those of an installation
        :param kind: of the database
        :param settings: of `blockattach.conf.api.ApiSettings`
        """
        time = clock or clocks.Clock()
        self._open = contextlib.ExitStack()
        self.control = control or control_conf.ControlSettings()
        self.database = self._open.enter_context(database.DatabaseFixture(kind, time)).database
        self.work = in_process.Work()
        self.hold = False
        self.managers = in_process.VolumeClients()
        self.scheduler = scheduler = in_process.Scheduler(
            self.database, self.managers, self.work, time, scheduling)
        tell = self._telling(told or notifications.Notifications(None, ''))
        self.manager = manager.VolumeManager(
            self.database, HOST, self.control.availability_zone, scheduler, self.work.later, tell)
        self.manager.report()
        self.managers.add(HOST, self.manager.endpoint)
        api_settings = api_conf.ApiSettings(**settings)
        named = repeats.Repeats(self.database, self.control.idempotency_key_seconds,
                                self.control.backend_seconds, time)
        attaching = attachments.AttachmentControl(self._parts(named, nova, tell))
        self.services = api_services.ApiServices(
            database=self.database, policy=self._open.enter_context(_policy(rules or {})),
            attachments=attaching,
            legacy=legacy.LegacyControl(self.database, attaching),
            reset=reset.ResetControl(self.database, attaching),
            reservations=reservations.ReservationControl(self.database, self.managers,
                                                         in_process.DOWN_AFTER),
            logs=log_levels.LogControl(self.database, in_process.ProcessClients(), API_HOST,
                                       in_process.DOWN_AFTER),
            volumes=self._volumes(scheduler, api_settings.check_capabilities, named, time),
            settings=api_settings, default_volume_type=self.control.default_volume_type,
            availability_zone=self.control.availability_zone,
            service_down_time=in_process.DOWN_AFTER, clock=time)
        self._app = app.build_app(
            self.services, auth.Entrance(auth.NoAuthentication(self.services.policy.is_admin)),
            check_answers=True)
        self._personas()

    def _personas(self) -> None:
        self.as_admin = Persona(self, 'admin,member,reader')
        self.as_member = Persona(self, 'member,reader')
        self.as_reader = Persona(self, 'reader')
        self.as_nobody = Persona(self, 'guest')
        self.as_stranger = Persona(self, 'member,reader', OTHER_PROJECT)
        self.as_service = Persona(self, 'member,reader', service_token=True)

    def _telling(self, told: notifications.Notifications) -> notifications.AttachmentNotifications:
        return notifications.AttachmentNotifications(
            told, functools.partial(volume_queries.get_even_gone, self.database),
            functools.partial(attachment_queries.of_volume, self.database))

    def _parts(self, named: repeats.Repeats, nova: nova_conf.NovaSettings | None,
               tell: notifications.AttachmentNotifications) -> parts.Parts:
        attachment = functools.partial(attachment_queries.get, self.database)
        moving = moves.AttachmentMoves(self.database, tell)
        return parts.Parts(
            database=self.database,
            moves=moving,
            backend=backend_calls.BackendCalls(moving, self.managers,
                                               self.control.backend_seconds),
            repeats=named,
            rule=detach_rule.DetachRule(nova_client.NovaClient(nova) if nova else None,
                                        detach_rule.RuleSettings(nova is not None), attachment))

    def _volumes(self, scheduler: in_process.Scheduler, check: api_conf.CapabilityCheck,
                 named: repeats.Repeats, time: clocks.Clock) -> volumes.VolumeControl:
        return volumes.VolumeControl(volume_parts.VolumeParts(
            self.database, scheduler, self.managers, self.control, pool_check.PoolCheck(
                self.database, scheduler_conf.SchedulerSettings().filters, check, _SERVICE, time),
            named))

    def answer(self, request: webob.Request) -> Reply:
        """Send a request; then all that waits goes on, unless ``hold`` is set."""
        response = request.get_response(self._app)
        text = response.body.decode()
        is_json = (response.content_type or '').startswith('application/json')
        if not self.hold:
            self.work.settle()
        return Reply(response.status_code, response.headers,
                     json.loads(text) if text and is_json else None, text)

    def __call__(self, environ: dict[str, Any],
                 start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The application, for who sends requests of his own; then all that waits goes on."""
        answered = list(self._app(environ, start_response))
        if not self.hold:
            self.work.settle()
        return answered

    def close(self) -> None:
        """Forget it, with all that is in it."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


@contextlib.contextmanager
def _policy(rules: Mapping[str, str]) -> Iterator[enforcer.Enforcer]:
    """Rules are read anew when their file changes, and so it has to stay."""
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
        # JSON is YAML.
        json.dump(dict(rules), file)
        file.flush()
        conf.set_override('policy_file', file.name, 'oslo_policy')
        yield enforcer.Enforcer(conf)
