"""Base class of the Tempest tests, with the service under test."""
from typing import Any

from tempest import config
from tempest import test

from blockattach_tempest_plugin import client
from blockattach_tempest_plugin import clouds

CONF = config.CONF


class CasesTest(test.BaseTestCase):
    """Base class that creates the service under test from Tempest's configuration."""

    credentials: list[Any] = ['primary', 'alt', 'admin']
    cloud: clouds.Cloud

    @classmethod
    def skip_checks(cls) -> None:
        """Skip the tests if block storage is not available."""
        super().skip_checks()
        if not CONF.service_available.cinder:
            raise cls.skipException('block storage is not available')

    @classmethod
    def setup_credentials(cls) -> None:
        """Add the credentials of a service user if its role is configured."""
        # By default, Tempest creates a network for each project. The tests need none.
        cls.set_network_resources()
        role = CONF.blockattach.service_role
        if role:
            cls.credentials = [*CasesTest.credentials, ['service', role]]
        super().setup_credentials()

    @classmethod
    def setup_clients(cls) -> None:
        """Create the service under test with its callers."""
        super().setup_clients()
        options = CONF.blockattach
        member = _client(cls.os_primary)
        service = getattr(cls, 'os_service', None)
        cls.cloud = clouds.Cloud(
            member, _client(cls.os_alt), _client(cls.os_admin),
            member.with_service_token(service.auth_provider.get_token) if service else None,
            compute=_compute_client(cls.os_primary), plain_type=options.plain_type,
            shows_differences=options.differences,
            multiattach_type=(options.multiattach_type
                              or CONF.volume.volume_type_multiattach or None))

    @classmethod
    def resource_setup(cls) -> None:
        """Detect the features of the service."""
        super().resource_setup()
        # Registered first, because `prepare` may fail after it has created a volume type.
        cls.addClassResourceCleanup(cls.cloud.close)
        cls.cloud.prepare()


def _client(manager: Any) -> client.Client:
    provider = manager.auth_provider
    endpoint = provider.base_url({
        'service': CONF.volume.catalog_type, 'endpoint_type': CONF.volume.endpoint_type,
        'region': CONF.volume.region or CONF.identity.region})
    return client.Client(endpoint, provider.get_token)


def _compute_client(manager: Any) -> client.Client | None:
    if not CONF.service_available.nova:
        return None
    provider = manager.auth_provider
    endpoint = provider.base_url({
        'service': CONF.compute.catalog_type, 'endpoint_type': CONF.compute.endpoint_type,
        'region': CONF.compute.region or CONF.identity.region})
    return client.Client(endpoint, provider.get_token)
