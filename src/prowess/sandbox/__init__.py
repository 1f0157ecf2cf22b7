"""Run the code of skills: scripts, functions and commands that reach only what their host gives them."""
