"""Block storage: the API, the scheduler and the volume service, with their rules and drivers."""
