"""How Sphinx builds the documentation."""
import importlib.metadata

project = 'blockattach'
author = 'The blockattach developers'
copyright = author
version = release = importlib.metadata.version('blockattach')

extensions = []
exclude_patterns = []
html_theme = 'alabaster'
html_theme_options = {'page_width': '1100px', 'description': 'Block-storage attachments'}
# A literal is a literal: no quotes turned round, no dashes made long.
smartquotes = False
