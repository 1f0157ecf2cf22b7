"""Prompts and rubrics: finding them by id and version, and rendering them."""
