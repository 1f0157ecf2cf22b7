"""Requests that leave this machine on behalf of a skill, each checked before it goes."""
