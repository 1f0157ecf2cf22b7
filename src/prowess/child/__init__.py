"""Child processes: how they are started, spoken to, limited and killed. Standard library only."""
