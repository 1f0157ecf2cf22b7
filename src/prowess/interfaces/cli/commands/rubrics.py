"""`prowess rubrics`: the rubrics that reviews name by id and version."""

from __future__ import annotations

from prowess.interfaces.cli.registries import registry_group

command = registry_group("rubric", "List, show, check and keep the rubrics that skills name by id and version.")
