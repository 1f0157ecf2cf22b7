"""Who may do what with which skill: actors, roles, rules, the gate, approvals and the audit log."""
