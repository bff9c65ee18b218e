"""Built-in HTTP server: connections, TLS, threads for requests, and the gateway to WSGI."""
