"""The engine: everything that a door can ask for."""
