"""Policy rules of block storage by resource, and the access of callers to resources."""
