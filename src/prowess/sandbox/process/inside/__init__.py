"""What runs in the processes of native runs, without this one's environment."""
