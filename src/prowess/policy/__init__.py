"""Permissions of people and agents on skills: actors, roles, rules, the gate, approvals and the audit log."""
