"""What a cloud of `tools/devcloud` has in Keystone: a domain with its people, and its region.

Both are named after the cloud, so that whatever else is in that Keystone is neither used nor
touched. The public endpoint of the block-storage service is the first API, the internal one the
second.
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
"""An account: a name, a project, and roles in it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """A domain and a region of this name. ``passwords`` are by the names of people."""

    name: str
    auth_url: str
    passwords: dict[str, str]

    def openrc(self, person: str) -> str:
        """Lines that a shell reads to act as somebody in the project."""
        variables = {
            'OS_AUTH_TYPE': 'password', 'OS_AUTH_URL': self.auth_url,
            'OS_IDENTITY_API_VERSION': '3', 'OS_REGION_NAME': self.name,
            'OS_USERNAME': person, 'OS_PASSWORD': self.passwords[person],
            'OS_USER_DOMAIN_NAME': self.name, 'OS_PROJECT_NAME': PROJECT,
            'OS_PROJECT_DOMAIN_NAME': self.name,
            # internal: the other API.
            'OS_INTERFACE': 'public'}
        return ''.join(f'export {name}={shlex.quote(value)}\n'
                       for name, value in variables.items())

    def account(self) -> dict[str, str]:
        """How the service itself logs in."""
        return {
            'auth_url': self.auth_url, 'region_name': self.name, 'username': _SERVICE_USER,
            'password': self.passwords[_SERVICE_USER], 'project_name': _SERVICE_PROJECT,
            'user_domain_name': self.name, 'project_domain_name': self.name}

    def middleware(self) -> dict[str, str]:
        """The same, as the group [keystone_authtoken]."""
        return {'auth_type': 'password', 'www_authenticate_uri': self.auth_url, **self.account()}


def fill(cloud: connection.Connection, name: str, auth_url: str,
         endpoints: tuple[str, str]) -> Identity:
    """Make the people and the catalog.

    :param cloud: an administrator's
    :param name: of the domain and the region
    :param endpoints: of the block-storage service: public, internal
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
    """Add Glance to the catalog that `fill` has made."""
    identity: Any = cloud.identity
    images = identity.create_service(name=name, type=IMAGE_TYPE)
    for interface in ('public', 'internal'):
        identity.create_endpoint(service_id=images.id, interface=interface, url=url,
                                 region_id=name)


def clear(cloud: connection.Connection, name: str) -> None:
    """Remove what `fill` makes, as far as it was made."""
    identity: Any = cloud.identity
    for endpoint in list(identity.endpoints(region_id=name)):
        identity.delete_endpoint(endpoint)
    for service in list(identity.services(name=name)):
        identity.delete_service(service)
    if any(region.id == name for region in identity.regions()):
        identity.delete_region(name)
    domain = identity.find_domain(name)
    if domain is not None:
        # Keystone asks twice before it forgets a domain with all that is in it.
        identity.update_domain(domain, is_enabled=False)
        identity.delete_domain(domain)
