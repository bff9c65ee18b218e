"""How Sphinx builds the release notes."""
project = 'blockattach release notes'
author = 'The blockattach developers'
copyright = author
# One set of notes for all versions: their number is in the notes.
version = release = ''

extensions = ['reno.sphinxext']
html_theme = 'alabaster'
