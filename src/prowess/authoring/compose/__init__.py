"""The skill composer: draft a skill with a model, check it, refine it in words, and save what a person approves."""
