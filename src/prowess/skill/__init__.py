"""Skills as pure values and functions, without files, clock or network."""
