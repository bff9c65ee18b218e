"""Configuration of Sphinx, which also generates the documents that follow from the code."""
import importlib.metadata
import logging
import pathlib
import sys

from sphinx import application

# blockattach also keeps the libraries, whose options are read, from eventlet.
from blockattach.cmd import allinone
from blockattach.cmd import api
from blockattach.cmd import compute
from blockattach.cmd import compute_api
from blockattach.cmd import control
from blockattach.cmd import manage
from blockattach.cmd import scheduler
from blockattach.cmd import status
from blockattach.cmd import volume

ROOT = pathlib.Path(__file__).resolve().parents[2]

project = 'blockattach'
author = 'The blockattach developers'
copyright = author
version = release = importlib.metadata.version('blockattach')

extensions = ['oslo_config.sphinxext', 'oslo_policy.sphinxext', 'reno.sphinxext',
              'sphinx_copybutton']
exclude_patterns = ['**/*.inc']
# Most of what is shown are commands; other blocks name their language.
highlight_language = 'bash'
# A literal is a literal: no quotes turned round, no dashes made long.
smartquotes = False

# reno would say of each note where it found it, and oslo.service which threads it chose.
for name in ('reno', 'oslo_service'):
    logging.getLogger(name).setLevel(logging.WARNING)
# reno reads the notes from git, and an unpacked archive has none.
if not (ROOT / '.git').exists():
    exclude_patterns.append('release_notes.rst')
    suppress_warnings = ['toc.excluded', 'ref.doc']

# As whatis wants it: what the command does, in small letters and without a full stop.
man_pages = [
    (f'admin/{command.NAME.replace("-", "_")}', command.NAME,
     command.TEXT[0].lower() + command.TEXT[1:].rstrip('.'), author, 1)
    for command in (allinone, api, compute, compute_api, control, manage, scheduler, status,
                    volume)]

html_theme = 'furo'
html_title = f'blockattach {release}'
html_static_path = ['_static']
html_css_files = ['wide.css']
html_show_sourcelink = False
# What is behind a prompt is copied, and what a command prints is not.
copybutton_prompt_text = '$ '
# Where lines are left out, an empty one is part of what a command prints.
copybutton_copy_empty_lines = False
copybutton_line_continuation_character = '\\'


def write_generated_documents(app: application.Sphinx) -> None:
    """Write the documents that .gitignore lists, before Sphinx looks for source files."""
    # The generators take seconds to import, and readers of the settings above do not need them.
    sys.path.append(str(ROOT / 'tools' / 'docs'))
    import documents

    documents.write(documents.BUILT)


def setup(app: application.Sphinx) -> None:
    """Register the generators of documents with Sphinx."""
    app.connect('builder-inited', write_generated_documents)
