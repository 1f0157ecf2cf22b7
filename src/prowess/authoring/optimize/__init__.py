"""Optimize skills: search for a better candidate, test it on held-out cases, propose it to a person, watch it live."""
