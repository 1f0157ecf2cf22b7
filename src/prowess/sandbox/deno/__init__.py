"""Functions in TypeScript and JavaScript: this side of Deno; inside is the other."""
