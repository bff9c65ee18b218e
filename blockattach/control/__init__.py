"""The verbs of the service, free of HTTP: what the API does once it knows who asks for what."""
