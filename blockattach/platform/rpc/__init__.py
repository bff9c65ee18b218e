"""RPC message bus: interfaces, clients, servers, and transports."""
