"""Public modules for backend drivers that are developed outside of this project."""
