"""The engine: everything that an interface can ask for."""
