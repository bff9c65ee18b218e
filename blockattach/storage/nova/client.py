"""What is asked of Nova, as its HTTP client.

For our caller it is asked with its token; elsewhere by the account of ``[nova]``. Without an
account, only a Nova without Keystone answers.
"""
import contextlib
import functools
import logging
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent import futures
from typing import Any
from typing import TypeVar
from urllib import parse

from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from keystoneauth1 import plugin
from keystoneauth1 import token_endpoint

from blockattach.platform import context
from blockattach.platform import identity
from blockattach.platform import log
from blockattach.platform.telemetry import threads
from blockattach.storage import errors
from blockattach.storage.conf import nova as nova_conf
from blockattach.storage.domain import expiry_rule

LOG = logging.getLogger(__name__)

Answer = TypeVar('Answer')
_SERVICE_TYPE = 'compute'
_MICROVERSION = '2.89'
"""The first one with the id of an attachment."""
_EXTENDED = '2.51'
"""The first one that knows of larger volumes."""
_EVENT_FAILURES: dict[int | None, str] = {
    404: 'Nova does not know the server', 422: 'the server is not on any host'}
_REIMAGED = '2.93'
"""The first one with the event volume-reimaged."""
_HOST = 'OS-EXT-SRV-ATTR:host'
_PROJECT = 'tenant_id'
_TASK = 'OS-EXT-STS:task_state'
_BUILT = 'BUILD'
_EVERYBODYS = '/servers?all_tenants=1&limit=1'


class NovaClient:
    """Asks on behalf of our caller, on connections that all threads share."""

    def __init__(self, settings: nova_conf.NovaSettings,
                 service: plugin.BaseAuthPlugin | None = None) -> None:
        """Open nothing yet.

        :param settings: that say where Nova is (`NovaSettings.configured`)
        :param service: account of the service token, which is sent with the token of the caller
        """
        self._settings = settings
        self._service = service
        self._session = identity.open_session(settings, settings.timeout)

    def attachment_in_use(self, caller: context.RequestContext, server_id: str,
                          volume_id: str) -> str | None:
        """The attachment by which a server uses a volume; None if it does not.

        :raises NovaUnavailable: Nova, or Keystone on the way to it, does not answer
        """
        with _learning(functools.partial(
                errors.NovaUnavailable, server_id=server_id, volume_id=volume_id),
                log.fields(server_id=server_id, volume_id=volume_id)):
            return _attachment_in_use(functools.partial(
                _within, self._settings.timeout, self._ask, caller), server_id, volume_id)

    def _ask(self, caller: context.RequestContext, path: str) -> tuple[int, dict[str, Any]]:
        """Status and body of Nova's answer; a body that is no JSON object is an empty one.

        :raises ClientException: nothing was learnt
        """
        token = caller.auth_token or identity.NO_TOKEN
        endpoint = self._settings.endpoint_override or identity.endpoint(
            self._session, self._settings, token, _SERVICE_TYPE)
        reply = self._session.get(
            endpoint.rstrip('/') + path,
            auth=identity.beside(token_endpoint.Token(endpoint, token), self._service),
            raise_exc=False, microversion=_MICROVERSION, microversion_service_type=_SERVICE_TYPE,
            global_request_id=caller.global_id)
        return reply.status_code, identity.body_of(reply)


class _Account:
    """Asks in the service's own name, on connections that all threads share."""

    def __init__(self, settings: nova_conf.NovaSettings) -> None:
        """Open nothing yet.

        :param settings: with Nova's address and the account (`NovaSettings.knows_hosts`)
        """
        self._seconds = settings.timeout
        self._nova = adapter.Adapter(
            identity.open_session(settings, settings.timeout), auth=identity.own(settings),
            service_type=_SERVICE_TYPE, interface=settings.interfaces,
            region_name=settings.region_name, endpoint_override=settings.endpoint_override)

    def _get(self, path: str, microversion: str | None = None) -> tuple[int, dict[str, Any]]:
        """Status and body of Nova's answer; a body that is no JSON object is an empty one.

        :raises ClientException: nothing was learnt
        """
        return _within(self._seconds, self._ask, 'GET', path, microversion)

    def _post(self, path: str, body: dict[str, Any],
              microversion: str) -> tuple[int, dict[str, Any]]:
        """The same of a request that changes something."""
        return _within(self._seconds, self._ask, 'POST', path, microversion, body)

    def _ask(self, method: str, path: str, microversion: str | None,
             body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        reply = self._nova.request(path, method, microversion=microversion, raise_exc=False,
                                   **({} if body is None else {'json': body}))
        return reply.status_code, identity.body_of(reply)


class ServerHosts(_Account):
    """On which host a server runs, which Nova shows to trusted accounts."""

    def host_of(self, server_id: str, project_id: str) -> str:
        """The host on which a server of a project runs.

        :raises ServerHostUnknown: there is no such server, it runs nowhere, or Nova does not
            answer
        """
        unknown = functools.partial(errors.ServerHostUnknown, server_id=server_id)
        with _learning(unknown, log.fields(server_id=server_id)):
            status, body = self._get(_path(server_id))
            server = body.get('server')
            if status == 404 or isinstance(server, dict) and server.get(_PROJECT) != project_id:
                # To those of another project it does not exist.
                raise unknown(reason='the server does not exist')
            if status != 200 or not isinstance(server, dict):
                raise _Unclear(status)
        if _HOST not in server:
            LOG.warning('Cannot read the host of a server from Nova, the [nova] account lacks the '
                        'required role%s', log.fields(server_id=server_id))
            raise unknown(reason='Nova does not show the host')
        if not isinstance(server[_HOST], str) or not server[_HOST]:
            raise unknown(reason='the server is not on any host')
        return str(server[_HOST])


class Servers(_Account):
    """Whether a server exists and uses a volume, as Nova shows it to the service's account."""

    def look(self, server_id: str, volume_id: str) -> expiry_rule.Server:
        """What Nova says of a server and a volume.

        The server first: the result of what it was busy with is then in its attachments.

        :raises NovaUnavailable: Nova does not answer, or not to this account
        """
        with _learning(functools.partial(
                errors.NovaUnavailable, server_id=server_id, volume_id=volume_id),
                log.fields(server_id=server_id, volume_id=volume_id)):
            status, body = self._get(_path(server_id), _MICROVERSION)
            if _is_absent(status, body):
                self._check_sees_all()
                return expiry_rule.Server(exists=False)
            server = body.get('server')
            # A server whose cell is down is shown without its task.
            if status != 200 or not isinstance(server, dict) or _TASK not in server:
                raise _Unclear(status)
            busy = server[_TASK] is not None or server.get('status') == _BUILT
            return expiry_rule.Server(True, busy, _attachment_in_use(
                functools.partial(self._get, microversion=_MICROVERSION),
                server_id, volume_id))

    def _check_sees_all(self) -> None:
        """Return if the account sees the servers of all projects: to others, most do not exist."""
        status, body = self._get(_EVERYBODYS)
        if status != 200 or not isinstance(body.get('servers'), list):
            raise _Unclear(status)


class ServerEvents(_Account):
    """What Nova is notified of, which takes it from trusted accounts."""

    def volume_extended(self, server_ids: Sequence[str], volume_id: str) -> dict[str, str]:
        """Notify Nova that the volume of these servers is larger: why not, by server.

        Nova answers when the hosts of the servers have been sent the news, not when they have it.
        """
        return self._send(volume_id, _EXTENDED, [
            {'name': 'volume-extended', 'server_uuid': server_id} for server_id in server_ids])

    def volume_reimaged(self, server_id: str, volume_id: str, done: bool) -> None:
        """Notify Nova that a volume has the bytes of another image. Nothing waits for that here:
        it may be lost.

        :param done: the volume has them; False: it is in error
        """
        failures = self._send(volume_id, _REIMAGED, [{
            'name': 'volume-reimaged', 'server_uuid': server_id,
            'status': 'completed' if done else 'failed'}])
        for reason in failures.values():
            LOG.warning('Failed to notify Nova of a reimaged volume%s', log.fields(
                server_id=server_id, volume_id=volume_id, reason=reason))

    def _send(self, volume_id: str, microversion: str,
              events: list[dict[str, str]]) -> dict[str, str]:
        """Why a server is not notified, by its id."""
        server_ids = [event['server_uuid'] for event in events]
        body = {'events': [{**event, 'tag': volume_id} for event in events]}
        try:
            with _learning(_Unlearnt, log.fields(volume_id=volume_id)):
                status, answer = self._post('/os-server-external-events', body, microversion)
                if _is_absent(status, answer):
                    return dict.fromkeys(server_ids, _EVENT_FAILURES[404])
                results = answer.get('events')
                if status not in (200, 207) or not isinstance(results, list):
                    raise _Unclear(status)
        except _Unlearnt as unlearnt:
            return dict.fromkeys(server_ids, str(unlearnt))
        codes = {one.get('server_uuid'): one.get('code') for one in results
                 if isinstance(one, dict)}
        return {server_id: _EVENT_FAILURES.get(codes.get(server_id), 'Nova rejected the event')
                for server_id in server_ids if codes.get(server_id) != 200}


class _Unlearnt(Exception):
    """Nova was not reached, or its answer says nothing."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class _Unclear(Exception):
    """Nothing was learnt."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@contextlib.contextmanager
def _learning(unknown: Callable[..., Exception], what: log.Fields) -> Iterator[None]:
    """Translate the failures of a request to Nova.

    :param unknown: the error, given the reason, if nothing was learnt
    """
    try:
        yield
    except exceptions.ClientException as failure:
        # Its text has internal addresses, which the client need not know.
        LOG.warning('Failed to reach Nova: %s%s', failure, what)
        raise unknown(reason='Nova cannot be reached') from failure
    except _Unclear as unclear:
        LOG.warning('Unexpected response received from Nova: status %d%s', unclear.status, what)
        raise unknown(reason=f'Nova responded with status {unclear.status}') from unclear


def _path(server_id: str) -> str:
    return f'/servers/{parse.quote(server_id, safe="")}'


def _attachment_in_use(get: Callable[[str], tuple[int, dict[str, Any]]], server_id: str,
                       volume_id: str) -> str | None:
    """The attachment by which a server uses a volume, in our form; None if it does not.

    :raises _Unclear: Nova says neither
    """
    status, body = get(f'{_path(server_id)}/os-volume_attachments/{volume_id}')
    if _is_absent(status, body):
        return None
    attachment = body.get('volumeAttachment')
    found = attachment.get('attachment_id') if isinstance(attachment, dict) else None
    if status != 200 or not isinstance(found, str):
        raise _Unclear(status)
    try:
        return str(uuid.UUID(found))
    except ValueError:
        raise _Unclear(status) from None


def _is_absent(status: int, body: dict[str, Any]) -> bool:
    """Any other 404 comes from something that is not Nova: a proxy, or a wrong address."""
    return status == 404 and 'itemNotFound' in body


def _within(seconds: float, act: Callable[..., Answer], *arguments: Any) -> Answer:
    """What the act returns, or raises, if it ends in time.

    A time-out of `requests` is for each read alone, and a peer that sends a byte now and then
    never meets it. The thread is a daemon: one that is not waited for any more does not keep the
    process either.

    :raises ConnectTimeout: it has not ended
    """
    answer: futures.Future[Answer] = futures.Future()

    def run() -> None:
        try:
            answer.set_result(act(*arguments))
        except BaseException as error:
            answer.set_exception(error)

    threads.Threads().begin('nova', run).start()
    try:
        return answer.result(seconds)
    except TimeoutError as error:
        raise exceptions.ConnectTimeout(f'no complete response within {seconds:g} s') from error
