"""The block-storage API: the table of contents and its resources."""
