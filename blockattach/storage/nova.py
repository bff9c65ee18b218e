"""Client of the Compute API of Nova.

Requests on behalf of a caller have the token of the caller. All other requests use the account of
``[nova]``. Without an account, Nova accepts such requests only if Nova does not use Keystone.
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
"""First microversion that shows the attachment id of an attached volume, also used by Cinder."""
_EXTENDED = '2.51'
"""First microversion with the event volume-extended."""
_EVENT_FAILURES: dict[int | None, str] = {
    404: 'Nova does not know the server', 422: 'the server is not on any host'}
_REIMAGED = '2.93'
"""First microversion with the event volume-reimaged."""
_HOST = 'OS-EXT-SRV-ATTR:host'
_PROJECT = 'tenant_id'
_TASK = 'OS-EXT-STS:task_state'
# A server that is being built has no task at times.
_BUILT = 'BUILD'
# Nova allows `all_tenants` only to accounts that see the servers of all projects.
_EVERYBODYS = '/servers?all_tenants=1&limit=1'


class NovaClient:
    """Client for requests on behalf of a caller. All threads share its connections."""

    def __init__(self, settings: nova_conf.NovaSettings,
                 service: plugin.BaseAuthPlugin | None = None) -> None:
        """
        :param settings: settings with the address of Nova (`NovaSettings.configured`)
        :param service: account of the service token, which is sent with the token of the caller
        """
        self._settings = settings
        self._service = service
        self._session = identity.open_session(settings, settings.timeout)

    def attachment_in_use(self, caller: context.RequestContext, server_id: str,
                          volume_id: str) -> str | None:
        """Return the id of the attachment by which a server uses a volume.

        :returns: None if the server does not use the volume
        :raises NovaUnavailable: if Nova or Keystone does not answer, or Nova gives no clear answer
        """
        with _learning(functools.partial(
                errors.NovaUnavailable, server_id=server_id, volume_id=volume_id),
                log.fields(server_id=server_id, volume_id=volume_id)):
            return _attachment_in_use(functools.partial(
                _within, self._settings.timeout, self._ask, caller), server_id, volume_id)

    def _ask(self, caller: context.RequestContext, path: str) -> tuple[int, dict[str, Any]]:
        """Send a GET request, and return the status and the body of the response.

        :returns: an empty body if the body is not a JSON object
        :raises ClientException: if no response was received
        """
        # With the token of the caller, Nova decides whether the caller may see the server.
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
    """Base of clients that use the account of ``[nova]``. All threads share its connections."""

    def __init__(self, settings: nova_conf.NovaSettings) -> None:
        """
        :param settings: settings with the address of Nova and the account
            (`NovaSettings.knows_hosts`)
        """
        self._seconds = settings.timeout
        self._nova = adapter.Adapter(
            identity.open_session(settings, settings.timeout), auth=identity.own(settings),
            service_type=_SERVICE_TYPE, interface=settings.interfaces,
            region_name=settings.region_name, endpoint_override=settings.endpoint_override)

    def _get(self, path: str, microversion: str | None = None) -> tuple[int, dict[str, Any]]:
        """Send a GET request, and return the status and the body of the response.

        :returns: an empty body if the body is not a JSON object
        :raises ClientException: if no complete response was received in time
        """
        return _within(self._seconds, self._ask, 'GET', path, microversion)

    def _post(self, path: str, body: dict[str, Any],
              microversion: str) -> tuple[int, dict[str, Any]]:
        """Send a POST request. Results and errors are those of `_get`."""
        return _within(self._seconds, self._ask, 'POST', path, microversion, body)

    def _ask(self, method: str, path: str, microversion: str | None,
             body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        reply = self._nova.request(path, method, microversion=microversion, raise_exc=False,
                                   **({} if body is None else {'json': body}))
        return reply.status_code, identity.body_of(reply)


class ServerHosts(_Account):
    """Client that looks up the hosts of servers. Nova shows hosts only to trusted accounts."""

    def host_of(self, server_id: str, project_id: str) -> str:
        """Return the host on which a server of a project runs.

        :raises ServerHostUnknown: if the project has no such server, if the server is not on any
            host, or if Nova does not answer or does not show the host
        """
        unknown = functools.partial(errors.ServerHostUnknown, server_id=server_id)
        with _learning(unknown, log.fields(server_id=server_id)):
            status, body = self._get(_path(server_id))
            server = body.get('server')
            if status == 404 or isinstance(server, dict) and server.get(_PROJECT) != project_id:
                # Users must not learn that a server of another project exists.
                raise unknown(reason='the server does not exist')
            if status != 200 or not isinstance(server, dict):
                raise _Unclear(status)
        if _HOST not in server:
            LOG.warning('Cannot read the host of a server from Nova%s', log.fields(
                server_id=server_id, reason='the [nova] account lacks the required role'))
            raise unknown(reason='Nova does not show the host')
        if not isinstance(server[_HOST], str) or not server[_HOST]:
            raise unknown(reason='the server is not on any host')
        return str(server[_HOST])


class Servers(_Account):
    """Client that looks up the servers of attachments, for the expiry of attachments."""

    def look(self, server_id: str, volume_id: str) -> expiry_rule.Server:
        """Look up a server, and the attachment by which it uses a volume.

        :raises NovaUnavailable: if Nova does not answer or gives no clear answer, or does not show
            the servers of all projects to the account of ``[nova]``
        """
        with _learning(functools.partial(
                errors.NovaUnavailable, server_id=server_id, volume_id=volume_id),
                log.fields(server_id=server_id, volume_id=volume_id)):
            status, body = self._get(_path(server_id), _MICROVERSION)
            if _is_absent(status, body):
                self._check_sees_all()
                return expiry_rule.Server(exists=False)
            server = body.get('server')
            # The server is read before its attachments. If it is not busy now, the attachments
            # show the result of its last task. A server whose cell is down has no task.
            if status != 200 or not isinstance(server, dict) or _TASK not in server:
                raise _Unclear(status)
            busy = server[_TASK] is not None or server.get('status') == _BUILT
            return expiry_rule.Server(True, busy, _attachment_in_use(
                functools.partial(self._get, microversion=_MICROVERSION),
                server_id, volume_id))

    def _check_sees_all(self) -> None:
        """Check that the account of ``[nova]`` sees the servers of all projects.

        If the account does not, Nova reports the servers of other projects as missing.

        :raises _Unclear: if the account does not see all servers
        """
        status, body = self._get(_EVERYBODYS)
        if status != 200 or not isinstance(body.get('servers'), list):
            raise _Unclear(status)


class ServerEvents(_Account):
    """Client that sends external server events, which Nova accepts only from trusted accounts."""

    def volume_extended(self, server_ids: Sequence[str], volume_id: str) -> dict[str, str]:
        """Notify Nova that the volume of these servers was extended.

        Nova responds when it has sent the event to the hosts of the servers. The hosts may handle
        the event later.

        :returns: reason of the failure by server id, for each server that was not notified
        """
        return self._send(volume_id, _EXTENDED, [
            {'name': 'volume-extended', 'server_uuid': server_id} for server_id in server_ids])

    def volume_reimaged(self, server_id: str, volume_id: str, done: bool) -> None:
        """Notify Nova that the reimage of a volume has ended.

        If the notification fails, the failure is only logged, because nothing in this service
        depends on the event.

        :param done: True if the volume has the data of the image; False if the reimage failed
        """
        failures = self._send(volume_id, _REIMAGED, [{
            'name': 'volume-reimaged', 'server_uuid': server_id,
            'status': 'completed' if done else 'failed'}])
        for reason in failures.values():
            LOG.warning('Failed to notify Nova of the end of a volume reimage%s', log.fields(
                server_id=server_id, volume_id=volume_id, reason=reason))

    def _send(self, volume_id: str, microversion: str,
              events: list[dict[str, str]]) -> dict[str, str]:
        """Send external server events about a volume to Nova.

        :returns: reason of the failure by server id, for each server that was not notified
        """
        server_ids = [event['server_uuid'] for event in events]
        body = {'events': [{**event, 'tag': volume_id} for event in events]}
        try:
            with _learning(_Unlearnt, log.fields(volume_id=volume_id)):
                status, answer = self._post('/os-server-external-events', body, microversion)
                if _is_absent(status, answer):
                    return dict.fromkeys(server_ids, _EVENT_FAILURES[404])
                results = answer.get('events')
                # Nova responds with 207 if it rejected some of the events.
                if status not in (200, 207) or not isinstance(results, list):
                    raise _Unclear(status)
        except _Unlearnt as unlearnt:
            return dict.fromkeys(server_ids, str(unlearnt))
        codes = {result.get('server_uuid'): result.get('code') for result in results
                 if isinstance(result, dict)}
        return {server_id: _EVENT_FAILURES.get(codes.get(server_id), 'Nova rejected the event')
                for server_id in server_ids if codes.get(server_id) != 200}


class _Unlearnt(Exception):
    """Error about an event that failed because Nova was not reached or its response is unusable.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class _Unclear(Exception):
    """Error about a response of Nova with an unexpected status or body."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@contextlib.contextmanager
def _learning(unknown: Callable[..., Exception], what: log.Fields) -> Iterator[None]:
    """Log the failure of a request to Nova, and raise another error.

    :param unknown: function that returns the error to raise, for a ``reason``
    :param what: fields of the log message
    """
    try:
        yield
    except exceptions.ClientException as failure:
        # The text of the exception contains internal addresses, which clients must not see.
        LOG.warning('Failed to reach Nova%s%s', what, log.fields(reason=failure))
        raise unknown(reason='Nova cannot be reached') from failure
    except _Unclear as unclear:
        LOG.warning('Unexpected response received from Nova%s%s', what, log.fields(
            status=unclear.status))
        raise unknown(reason=f'Nova responded with status {unclear.status}') from unclear


def _path(server_id: str) -> str:
    return f'/servers/{parse.quote(server_id, safe="")}'


def _attachment_in_use(get: Callable[[str], tuple[int, dict[str, Any]]], server_id: str,
                       volume_id: str) -> str | None:
    """Return the id of the attachment by which a server uses a volume, as a canonical UUID.

    :returns: None if the server does not use the volume
    :raises _Unclear: if the response does not contain a valid id
    """
    status, body = get(f'{_path(server_id)}/os-volume_attachments/{volume_id}')
    if _is_absent(status, body):
        return None
    attachment = body.get('volumeAttachment')
    attachment_id = attachment.get('attachment_id') if isinstance(attachment, dict) else None
    if status != 200 or not isinstance(attachment_id, str):
        raise _Unclear(status)
    try:
        return str(uuid.UUID(attachment_id))
    except ValueError:
        raise _Unclear(status) from None


def _is_absent(status: int, body: dict[str, Any]) -> bool:
    """Return True if Nova reports that the requested resource does not exist.

    A 404 without ``itemNotFound`` comes from a proxy or from a wrong address.
    """
    return status == 404 and 'itemNotFound' in body


def _within(seconds: float, act: Callable[..., Answer], *arguments: Any) -> Answer:
    """Call a function in another thread, and return its result if the function ends in time.

    The timeout of `requests` limits each read, so a response that arrives slowly would never
    exceed the timeout. The thread is a daemon, so that the process can end during an abandoned
    call.

    :raises ConnectTimeout: if the function has not ended in time
    """
    answer: futures.Future[Answer] = futures.Future()

    def run() -> None:
        try:
            answer.set_result(act(*arguments))
        except BaseException as error:
            # The caller raises the error. Without a result, the caller would wait for its timeout.
            answer.set_exception(error)

    threads.Threads().begin('nova', run).start()
    try:
        return answer.result(seconds)
    except TimeoutError as error:
        raise exceptions.ConnectTimeout(f'no complete response within {seconds:g} s') from error
