"""HTTP request processing around the handlers of operations, independent of resources."""
