"""Registers the service account and the catalog entry of blockattach in Keystone.

Existing entries are kept, except for endpoints whose URL has changed.
"""
import os
import pathlib
from typing import Any

from openstack import connection

REGION = 'RegionOne'
DOMAIN = 'default'
NAME = 'blockattach'
PROJECT = 'service'
SECRETS = pathlib.Path('/run/secrets')


def register(identity: Any, password: str, url: str) -> None:
    """Create the missing entries and update changed endpoints.

    :param identity: identity proxy of openstacksdk, as an administrator
    :param password: password of the service account
    :param url: public URL of the API
    """
    project = identity.find_project(PROJECT, domain_id=DOMAIN) or identity.create_project(
        name=PROJECT, domain_id=DOMAIN)
    user = identity.find_user(NAME, domain_id=DOMAIN) or identity.create_user(
        name=NAME, domain_id=DOMAIN, password=password)
    identity.assign_project_role_to_user(
        project, user, identity.find_role('service', ignore_missing=False))
    service = identity.find_service(NAME) or identity.create_service(
        name=NAME, type='block-storage')
    for interface in ('public', 'internal'):
        known = next(identity.endpoints(service_id=service.id, interface=interface,
                                        region_id=REGION), None)
        if known is None:
            identity.create_endpoint(service_id=service.id, interface=interface, url=url,
                                     region_id=REGION)
        elif known.url != url:
            identity.update_endpoint(known, url=url)


def main() -> None:
    """Register blockattach as the administrator, over the internal endpoint."""
    passwords = [(SECRETS / f'keystone-{who}-password').read_text('utf-8').strip()
                 for who in ('admin', NAME)]
    cloud = connection.Connection(
        auth={'auth_url': os.environ['KEYSTONE_INTERNAL_URL'], 'username': 'admin',
              'password': passwords[0], 'project_name': 'admin', 'user_domain_id': DOMAIN,
              'project_domain_id': DOMAIN},
        region_name=REGION, interface='internal')
    register(cloud.identity, passwords[1], os.environ['BLOCKATTACH_URL'])


if __name__ == '__main__':
    main()
