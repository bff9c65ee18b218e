"""oslo.messaging driver without a broker. Messages are sent to servers directly over HTTP/1.1."""
