"""One module or package per noun; they do not know each other."""
