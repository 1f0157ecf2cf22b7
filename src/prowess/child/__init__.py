"""Start child processes, exchange frames with them, and kill them. Standard library only."""
