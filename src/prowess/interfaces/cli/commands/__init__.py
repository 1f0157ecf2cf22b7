"""One file per command; `main` loads a command's file only when it is called."""
