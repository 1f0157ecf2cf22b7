"""Running an artifact: dispatch to its handler, checks on what comes out, a trace of it all."""
