"""Where code that skills bring is run: an interpreter that can do nothing but compute, and ask its host."""
