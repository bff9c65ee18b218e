"""Resources of the API, one module or package per resource. They do not import each other."""
