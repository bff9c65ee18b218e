"""Plans of server actions (acts): undoable steps, and steps that are repeated until they succeed.
"""
