"""Check of the existence of a project in Keystone, with the token of the caller."""
from collections.abc import Callable
from urllib import parse

from keystoneauth1 import exceptions
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform.http import keystone

LOG = oslo_log.getLogger(__name__)

Check = Callable[[context.RequestContext, str], None]
"""Callback that raises ProjectNotFound if no project with that id is visible to the caller."""


def checked(conf: cfg.ConfigOpts) -> Check:
    """Return a check that asks the Keystone that authenticates callers.

    No connection is opened before the first check.

    :param conf: with the options of `keystone.register`
    :raises ConfigurationError: the options do not contain the URL of Keystone
    """
    group = conf[keystone.GROUP]
    base = keystone.url_of(conf).rstrip('/').removesuffix('/v3')
    connections = session.Session(
        timeout=group.http_connect_timeout, redirect=False,
        verify=False if group.insecure else group.cafile or True,
        cert=(group.certfile, group.keyfile) if group.certfile else None)

    def check(caller: context.RequestContext, project_id: str) -> None:
        """Return if the project exists.

        :raises ProjectNotFound: Keystone has no project with this id
        :raises NotAuthorized: the caller may not look up projects in Keystone
        :raises IdentityUnavailable: the request to Keystone failed
        """
        try:
            status = connections.get(
                f'{base}/v3/projects/{parse.quote(project_id, safe="")}', raise_exc=False,
                auth=token_endpoint.Token(base, caller.auth_token)).status_code
        except exceptions.ClientException as failure:
            LOG.warning('Failed to look up project in Keystone: %s%s', failure,
                        log.fields(project_id=project_id))
            raise errors.IdentityUnavailable from failure
        if status == 404:
            raise errors.ProjectNotFound(project_id=project_id)
        if status in (401, 403):
            raise errors.NotAuthorized('Keystone does not allow the caller to look up the '
                                       'project.')
        if status != 200:
            LOG.warning('Failed to look up project in Keystone: status %d%s', status,
                        log.fields(project_id=project_id))
            raise errors.IdentityUnavailable

    return check
