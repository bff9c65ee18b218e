"""The pure rules: table in, value out."""
