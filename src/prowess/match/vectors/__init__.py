"""Embedders, which turn texts into vectors: one protocol, three members."""
