"""Names of service binaries in the API: those of Cinder, which Tempest and Horizon expect."""

API = 'cinder-api'
VOLUME = 'cinder-volume'
SCHEDULER = 'cinder-scheduler'
