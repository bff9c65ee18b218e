"""Resources of a cloud of `tools/devcloud` in Keystone: a domain with its users, and a region.

Domain and region are named after the cloud, so that other resources of the Keystone are neither
used nor changed. The public endpoint of the block-storage service is the first API, and the
internal endpoint is the second API.
"""
import dataclasses
import secrets
import shlex
from typing import Any

from openstack import connection

SERVICE_TYPE = 'block-storage'
IMAGE_TYPE = 'image'
PROJECT = 'demo'
ADMINISTRATOR = 'admin'
MEMBER = 'demo'
_SERVICE_USER = 'blockattach'
_SERVICE_PROJECT = 'service'
_PEOPLE = (
    (ADMINISTRATOR, PROJECT, ('admin', 'member')),
    (MEMBER, PROJECT, ('member',)),
    # Glance shows the images of all projects to administrators only.
    (_SERVICE_USER, _SERVICE_PROJECT, ('service', 'admin')),
)
"""Users: name, project, and roles in the project."""


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """Domain and region of a cloud.

    :ivar name: name of both the domain and the region
    :ivar passwords: passwords by user name
    """

    name: str
    auth_url: str
    passwords: dict[str, str]

    def openrc(self, person: str) -> str:
        """Return the text of an openrc file for a user of the project."""
        variables = {
            'OS_AUTH_TYPE': 'password', 'OS_AUTH_URL': self.auth_url,
            'OS_IDENTITY_API_VERSION': '3', 'OS_REGION_NAME': self.name,
            'OS_USERNAME': person, 'OS_PASSWORD': self.passwords[person],
            'OS_USER_DOMAIN_NAME': self.name, 'OS_PROJECT_NAME': PROJECT,
            'OS_PROJECT_DOMAIN_NAME': self.name,
            # The internal interface is the other API.
            'OS_INTERFACE': 'public'}
        return ''.join(f'export {name}={shlex.quote(value)}\n'
                       for name, value in variables.items())

    def account(self) -> dict[str, str]:
        """Return the options with which the service authenticates itself."""
        return {
            'auth_url': self.auth_url, 'region_name': self.name, 'username': _SERVICE_USER,
            'password': self.passwords[_SERVICE_USER], 'project_name': _SERVICE_PROJECT,
            'user_domain_name': self.name, 'project_domain_name': self.name}

    def middleware(self) -> dict[str, str]:
        """Return the account of the service as options of [keystone_authtoken]."""
        return {'auth_type': 'password', 'www_authenticate_uri': self.auth_url, **self.account()}


def fill(cloud: connection.Connection, name: str, auth_url: str,
         endpoints: tuple[str, str]) -> Identity:
    """Create the domain, its users and projects, and the service catalog.

    :param cloud: connection of an administrator
    :param name: name of the domain and the region
    :param auth_url: URL of Keystone
    :param endpoints: public and internal URL of the block-storage service
    """
    identity: Any = cloud.identity
    domain = identity.create_domain(name=name)
    projects: dict[str, Any] = {}
    passwords = {}
    for person, project, roles in _PEOPLE:
        if project not in projects:
            projects[project] = identity.create_project(name=project, domain_id=domain.id)
        passwords[person] = secrets.token_urlsafe(24)
        user = identity.create_user(name=person, domain_id=domain.id, password=passwords[person])
        for role in roles:
            identity.assign_project_role_to_user(
                projects[project], user, identity.find_role(role, ignore_missing=False))
    identity.create_region(id=name)
    storage = identity.create_service(name=name, type=SERVICE_TYPE)
    keystone = next(identity.services(type='identity'))
    for service, interface, url in ((storage, 'public', endpoints[0]),
                                    (storage, 'internal', endpoints[1]),
                                    (keystone, 'public', auth_url),
                                    (keystone, 'internal', auth_url)):
        identity.create_endpoint(service_id=service.id, interface=interface, url=url,
                                 region_id=name)
    return Identity(name, auth_url, passwords)


def add_images(cloud: connection.Connection, name: str, url: str) -> None:
    """Add Glance to the catalog that `fill` has created."""
    identity: Any = cloud.identity
    images = identity.create_service(name=name, type=IMAGE_TYPE)
    for interface in ('public', 'internal'):
        identity.create_endpoint(service_id=images.id, interface=interface, url=url,
                                 region_id=name)


def clear(cloud: connection.Connection, name: str) -> None:
    """Delete what `fill` creates, even if `fill` was interrupted."""
    identity: Any = cloud.identity
    for endpoint in list(identity.endpoints(region_id=name)):
        identity.delete_endpoint(endpoint)
    for service in list(identity.services(name=name)):
        identity.delete_service(service)
    if any(region.id == name for region in identity.regions()):
        identity.delete_region(name)
    domain = identity.find_domain(name)
    if domain is not None:
        # Keystone deletes only disabled domains.
        identity.update_domain(domain, is_enabled=False)
        identity.delete_domain(domain)
