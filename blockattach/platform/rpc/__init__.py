"""The message bus: interfaces, clients, servers, and the transports below them."""
