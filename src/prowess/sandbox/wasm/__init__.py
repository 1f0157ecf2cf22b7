"""Scripts in CPython compiled to WebAssembly: this side of the worker; inside is the other."""
