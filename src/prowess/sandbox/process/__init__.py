"""Scripts at the speed of the machine: this side of their processes; inside is the other."""
