"""Volume manager of a backend: creates volumes, connects hosts, and reconciles the target."""
