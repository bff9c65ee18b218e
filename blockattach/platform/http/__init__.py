"""HTTP request processing around the handlers. Nothing here is specific to a resource."""
