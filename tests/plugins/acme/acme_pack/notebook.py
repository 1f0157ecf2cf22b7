"""A form of skill: a folder with a notebook.json, whose cells are the instructions."""

import json

from prowess.errors import Problem
from prowess.skill.form_info import FormInfo
from prowess.skill.forms.form import Candidate, Reading
from prowess.skill.forms.origin import Original
from prowess.skill.kinds import Instructions
from prowess.skill.limits import Limits
from prowess.skill.model import Skill
from prowess.skill.package import File, Package
from prowess.skill.slug import slugify

FILE = "notebook.json"


class NotebookForm:
    def recognises(self, candidate: Candidate) -> bool:
        return candidate.package.get(FILE) is not None

    def read(self, candidate: Candidate) -> Reading:
        package = candidate.package
        file = package.get(FILE)
        try:
            book = json.loads(file.content if file else b"{}")
            text = "\n\n".join(book["cells"])
            skill = Skill(
                slug=slugify(book["title"]),
                title=book["title"],
                description=book["about"],
                artifacts=(Instructions(name="instructions", content=text, path=FILE),),
                form="acme.notebook",
                manifest=package.manifest,
                digest=package.digest,
                content_length=len(text),
            )
        except (ValueError, KeyError, TypeError) as error:
            problem = Problem(code="no-skill", severity="error", message=f"{FILE} is not a notebook: {error}.")
            return Reading(form="acme.notebook", package=package, skill=None, problems=(problem,))
        return Reading(form="acme.notebook", package=package, skill=skill)

    def render(self, skill: Skill, original: Original) -> list[File]:
        book = {"title": skill.title, "about": skill.description, "cells": skill.body.split("\n\n")}
        return [File(path=FILE, content=json.dumps(book).encode()), *original.others]

    def origin(self, _reading: Reading, _limits: Limits) -> None:
        return None

    def controls(self, _package: Package, _limits: Limits) -> frozenset[str]:
        return frozenset({FILE})


NOTEBOOK = FormInfo(
    name="acme.notebook",
    markers=(FILE,),
    is_data=True,
    has_needs=False,
    is_descriptor=False,
    load=NotebookForm,
)
