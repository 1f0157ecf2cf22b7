"""Make skills and improve them: evaluate, optimize, compose."""
