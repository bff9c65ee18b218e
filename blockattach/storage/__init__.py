"""Block storage: API, scheduler and volume service, with their rules and drivers."""
