"""Volume manager of a backend, which creates volumes, connects hosts and reconciles the target."""
