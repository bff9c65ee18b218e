"""The verbs of the service, free of HTTP: what the API does once a request is authorized."""
