"""Policy rules of block storage by resource, and access of callers to resources."""
