"""Codes of the problems that only entries of a registry have; prompts and rubrics share the others with skills."""

from __future__ import annotations

CODES = {
    "registry-id": "An entry has an id by which nothing can name it.",
    "registry-version": "An entry has no version, or one that is not a semantic version.",
    "registry-duplicate": "Two files of one place hold the same version of the same entry; the first counts.",
    "registry-schema": "A schema of an entry cannot be used.",
    "registry-unreadable": "A file or folder of a registry cannot be read, or is a link, and is not followed.",
}
