"""The agent: conversations with a model that finds, enables and uses skills."""
