"""The tools that agents call: plain functions, with descriptions written for a model."""
