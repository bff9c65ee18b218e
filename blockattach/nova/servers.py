"""Whether a server exists and uses a volume, as Nova shows it to the service's account."""
import logging
from typing import Any
from urllib import parse

from keystoneauth1 import exceptions

from blockattach import errors
from blockattach.conf import nova as nova_conf
from blockattach.domain import expiry_rule
from blockattach.log import fields
from blockattach.nova import account
from blockattach.nova import client

LOG = logging.getLogger(__name__)

_TASK = 'OS-EXT-STS:task_state'
_BUILT = 'BUILD'
_EVERYBODYS = '/servers?all_tenants=1&limit=1'


class Servers:
    """One call, on connections that all threads share."""

    def __init__(self, settings: nova_conf.NovaSettings) -> None:
        """Open nothing yet.

        :param settings: with Nova's address and the account (`NovaSettings.knows_hosts`)
        """
        self._account = account.Account(settings)

    def look(self, server_id: str, volume_id: str) -> expiry_rule.Server:
        """What Nova says of a server and a volume.

        The server first: the result of what it was busy with is then in its attachments.

        :raises NovaUnavailable: Nova does not answer, or not to this account
        """
        try:
            return self._look(server_id, volume_id)
        except exceptions.ClientException as error:
            LOG.warning('Cannot reach Nova: %s%s', error, fields(server_id=server_id))
            raise errors.NovaUnavailable(server_id=server_id, volume_id=volume_id,
                                         reason='it cannot be reached') from error
        except _Unclear as unclear:
            LOG.warning('Cannot use the answer of Nova: status %d%s', unclear.status,
                        fields(server_id=server_id, volume_id=volume_id))
            raise errors.NovaUnavailable(
                server_id=server_id, volume_id=volume_id,
                reason=f'it answers with status {unclear.status}') from unclear

    def _look(self, server_id: str, volume_id: str) -> expiry_rule.Server:
        path = f'/servers/{parse.quote(server_id, safe="")}'
        status, body = self._account.get(path, client.MICROVERSION)
        if _is_absent(status, body):
            self._check_sees_all()
            return expiry_rule.Server(exists=False)
        server = body.get('server')
        # A server whose cell is down is shown without its task.
        if status != 200 or not isinstance(server, dict) or _TASK not in server:
            raise _Unclear(status)
        busy = server[_TASK] is not None or server.get('status') == _BUILT
        status, body = self._account.get(f'{path}/os-volume_attachments/{volume_id}',
                                         client.MICROVERSION)
        if _is_absent(status, body):
            return expiry_rule.Server(True, busy)
        used_by = client.attachment_of(body)
        if status != 200 or used_by is None:
            raise _Unclear(status)
        return expiry_rule.Server(True, busy, used_by)

    def _check_sees_all(self) -> None:
        """Return if the account sees the servers of all projects: to others, most do not exist."""
        status, body = self._account.get(_EVERYBODYS)
        if status != 200 or not isinstance(body.get('servers'), list):
            raise _Unclear(status)


class _Unclear(Exception):
    """Nothing was learnt."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def _is_absent(status: int, body: dict[str, Any]) -> bool:
    """Any other 404 comes from something that is not Nova: a proxy, or a wrong address."""
    return status == 404 and 'itemNotFound' in body
