"""Skills in a conversation: what is enabled, what it costs, and the text that enters the prompt."""
