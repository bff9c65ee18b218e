"""The scheduler: filters, weighers, the choice, the flow."""
