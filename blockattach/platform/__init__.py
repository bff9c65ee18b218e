"""Code that any service needs: HTTP, the bus, the database engine, options, policy, telemetry.

Nothing here imports block storage or servers.
"""
