"""Adapters: skills for agents that are built with other frameworks, one file each."""
