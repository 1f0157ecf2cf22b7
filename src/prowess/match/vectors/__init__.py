"""Texts as vectors whose nearness is nearness in meaning: one Protocol, three members."""
