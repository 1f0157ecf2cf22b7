"""Programs that skills bring or name: this side of their launcher; inside is the other."""
