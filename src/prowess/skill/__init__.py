"""What a skill is: pure values and functions, without files, clock or network."""
