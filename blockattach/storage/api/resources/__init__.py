"""Resources of the API, one module or package per resource. No resource imports another."""
