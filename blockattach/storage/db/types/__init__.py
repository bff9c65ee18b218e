"""Volume types with their extra specs, access and encryption, and QoS specs."""
