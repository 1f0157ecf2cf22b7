"""`prowess prompts`: the prompts that generations name by id and version."""

from __future__ import annotations

from prowess.interfaces.cli.registries import registry_group

command = registry_group("prompt", "List, show, check and keep the prompts that skills name by id and version.")
