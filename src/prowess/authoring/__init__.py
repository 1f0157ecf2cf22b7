"""Make skills and improve them: evaluate, optimise, compose."""
