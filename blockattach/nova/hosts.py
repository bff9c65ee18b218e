"""On which host a server runs, which Nova shows to trusted accounts.

A scheduler has nobody's token: it asks by the account of ``[nova]``, or without one where none is
needed.
"""
import logging
from urllib import parse

from keystoneauth1 import exceptions

from blockattach import errors
from blockattach.conf import nova as nova_conf
from blockattach.log import fields
from blockattach.nova import account

LOG = logging.getLogger(__name__)

_HOST = 'OS-EXT-SRV-ATTR:host'
_PROJECT = 'tenant_id'


class ServerHosts:
    """One call, on connections that all threads share."""

    def __init__(self, settings: nova_conf.NovaSettings) -> None:
        """Open nothing yet.

        :param settings: with Nova's address and the account (`NovaSettings.has_account`)
        """
        self._account = account.Account(settings)

    def host_of(self, server_id: str, project_id: str) -> str:
        """The host on which a server of a project runs.

        :raises ServerHostUnknown: there is no such server, it runs nowhere, or Nova does not
            answer
        """
        what = fields(server_id=server_id)
        try:
            status, body = self._account.get(f'/servers/{parse.quote(server_id, safe="")}')
        except exceptions.ClientException as error:
            # Its text has internal addresses, which the user need not know.
            LOG.warning('Cannot reach Nova: %s%s', error, what)
            raise errors.ServerHostUnknown(
                server_id=server_id, reason='Nova cannot be reached') from error
        server = body.get('server')
        if status == 404 or isinstance(server, dict) and \
                server.get(_PROJECT) != project_id:
            # To those of another project it does not exist.
            raise errors.ServerHostUnknown(server_id=server_id, reason='it does not exist')
        if status != 200 or not isinstance(server, dict):
            LOG.warning('Cannot use the answer of Nova: status %d%s', status, what)
            raise errors.ServerHostUnknown(
                server_id=server_id, reason=f'Nova answers with status {status}')
        if _HOST not in server:
            LOG.warning('Cannot see the host of a server: the account of [nova] needs a role '
                        'that Nova shows it to%s', what)
            raise errors.ServerHostUnknown(server_id=server_id, reason='Nova does not tell')
        if not isinstance(server[_HOST], str) or not server[_HOST]:
            raise errors.ServerHostUnknown(server_id=server_id, reason='it runs nowhere')
        return str(server[_HOST])
