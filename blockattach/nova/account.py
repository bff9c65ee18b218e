"""Asking Nova in the service's own name: by the account of ``[nova]``.

Used where there is no user's token; without an account, only a Nova without Keystone answers.
"""
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import plugin
from keystoneauth1 import token_endpoint
from keystoneauth1.identity import v3

from blockattach.conf import nova as nova_conf
from blockattach.nova import client
from blockattach.nova import whole


class Account:
    """One call, on connections that all threads share."""

    def __init__(self, settings: nova_conf.NovaSettings) -> None:
        """Open nothing yet.

        :param settings: with Nova's address and the account (`NovaSettings.knows_hosts`)
        """
        self._seconds = settings.timeout
        self._nova = adapter.Adapter(
            client.open_session(settings), auth=_plugin(settings),
            service_type=client.SERVICE_TYPE, interface=settings.interface,
            region_name=settings.region_name, endpoint_override=settings.endpoint_override)

    def get(self, path: str, microversion: str | None = None) -> tuple[int, dict[str, Any]]:
        """Status and body of Nova's answer; a body that is no JSON object is an empty one.

        :raises ClientException: nothing was learnt
        """
        return whole.within(self._seconds, self._get, path, microversion)

    def _get(self, path: str, microversion: str | None) -> tuple[int, dict[str, Any]]:
        reply = self._nova.get(path, microversion=microversion, raise_exc=False)
        return reply.status_code, client.body_of(reply)


def _plugin(settings: nova_conf.NovaSettings) -> plugin.BaseAuthPlugin:
    if not settings.has_account:
        return token_endpoint.Token(settings.endpoint_override, client.NO_TOKEN)
    return v3.Password(
        auth_url=f'{str(settings.auth_url).removesuffix("/v3")}/v3',
        username=settings.username, password=settings.password or '',
        user_domain_name=settings.user_domain_name, project_name=settings.project_name,
        project_domain_name=settings.project_domain_name)
