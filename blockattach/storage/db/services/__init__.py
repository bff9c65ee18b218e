"""The processes of the service, and the pools that they report."""
