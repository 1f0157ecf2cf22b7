"""Render prompt templates, and keep prompts and rubrics by id and version."""
