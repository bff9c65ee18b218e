"""Names of the services as clients read them: Tempest, Horizon and operators know the peer's."""

API = 'cinder-api'
VOLUME = 'cinder-volume'
SCHEDULER = 'cinder-scheduler'
