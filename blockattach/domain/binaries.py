"""Names of the services as clients read them: Tempest, Horizon and operators know the peer's."""

VOLUME = 'cinder-volume'
SCHEDULER = 'cinder-scheduler'
