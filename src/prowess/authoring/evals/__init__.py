"""Evaluate skills: cases, checks, runs, figures and reports."""
