"""Send HTTP requests to allowed hosts."""
