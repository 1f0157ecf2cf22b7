"""What runs functions written in TypeScript and JavaScript: the program within Deno, and what starts it."""
