"""How skills are kept: databases, folders and archives."""
