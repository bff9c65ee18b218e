"""An oslo.messaging driver without a broker: calls go over HTTP/1.1 to the server itself."""
