"""Service binary names shown to clients. Tempest, Horizon and operators know those of Cinder."""

API = 'cinder-api'
VOLUME = 'cinder-volume'
SCHEDULER = 'cinder-scheduler'
