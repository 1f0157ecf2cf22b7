"""Changing the files of a folder of skills: one writer at a time, and nothing goes that is not in the version log."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from prowess.catalog.decide import changed_meanwhile
from prowess.catalog.editing import Change
from prowess.catalog.placing import free_place
from prowess.catalog.site import Site, read_site
from prowess.catalog.tree import Tree
from prowess.catalog.versions import VersionLog
from prowess.errors import ProwessError, Refused, Unavailable
from prowess.skill.forms.form import Reading
from prowess.skill.limits import Limits
from prowess.skill.model import Version
from prowess.skill.package import Package
from prowess.skill.validate import accept
from prowess.storage.atomic import recover, remove, staged
from prowess.storage.folders import read_folder
from prowess.storage.lock import locked, locked_if_free


class FolderWriter:
    """Writes and removes skills below a root; its tree is told of each change. The folder is made at the first one.

    A `frozen` folder belongs to an installed package: nothing is ever written there.
    """

    def __init__(self, tree: Tree, root: Path, versions: VersionLog, limits: Limits, *, frozen: bool = False) -> None:
        self._frozen = frozen
        self._tree = tree
        self._root = root
        self._log = versions
        self._limits = limits

    def clear_leftovers(self) -> None:
        """Finish for a writer that was killed; a live one holds the lock and is left alone."""
        if self._frozen:
            return
        with suppress(OSError, ProwessError), locked_if_free(self._root) as free:
            if free:
                recover(self._root)

    @contextmanager
    def alone(self) -> Generator[None]:
        """Be the one writer, who sees the folder as it is; what the system refuses is `Unavailable`."""
        if self._frozen:
            raise Refused(
                f"The skills in {str(self._root)!r} come with an installed package and stay as they are.",
                hint="Export the skill, change the copy and import it: a nearer skill of the same name hides this one.",
            )
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with locked(self._root):
                recover(self._root)
                self._tree.refresh()
                yield
        except OSError as error:
            raise self.unwritable(error) from error

    def unwritable(self, error: OSError) -> Unavailable:
        """The error for what the system refuses."""
        return Unavailable(
            f"The folder {str(self._root)!r} cannot be written: {error.strerror or error}.",
            hint="Check its permissions and the space on the disk.",
        )

    def files(self, site: Site) -> Package:
        """The files of a site as they are now."""
        return read_site(site.location, str(self._root), self._limits, lone=site.lone).package

    def remember(self, site: Site) -> Package:
        """The files of a site; what somebody changed by hand since the last version becomes a version first."""
        package = self.files(site)
        if package.digest != site.digest:
            raise changed_meanwhile(site.slug, site.digest, package.digest)
        ends = self._log.ends(site.slug)
        if ends is None or ends[1].change == "delete" or ends[1].digest != package.digest:
            reading = accept(package, self._limits)
            change: Change = "update" if ends else "create"
            self._log.append(site.slug, package, form=reading.form, change=change, note="as found in the folder")
        return package

    def write(self, reading: Reading, site: Site | None, record: Callable[[], Version]) -> Version:
        """Make the new files ready, record the version, then let them take their place: that of `site`, or a new one."""
        package = reading.package
        lone = site is not None and site.lone and package.paths == (Path(site.location).name,)
        home = None if site is None else Path(site.location) if lone else self._home(site)
        stays = home is not None and (lone or home.is_dir())
        target = home if home is not None and stays else free_place(reading, self._root, self._limits)
        with staged(package, self._root, lone=lone) as stage:
            version = record()
            target.parent.mkdir(parents=True, exist_ok=True)
            if home is None:
                stage.place(target)
            else:
                stage.replace(target, home)
        if site is not None and site.location != str(target):
            self._tree.look_again(site.location, lone=site.lone)
        self._tree.find(str(target))
        return version

    def remove(self, site: Site) -> None:
        """Remove a skill with its files."""
        remove(self._home(site), self._root)
        self._tree.look_again(site.location, lone=site.lone)

    def _home(self, site: Site) -> Path:
        """What goes when the skill goes: its folder; its file; or the file's folder, if that holds nothing else."""
        location = Path(site.location)
        if site.lone and location.parent != self._root:
            with suppress(ProwessError):
                if read_folder(location.parent, self._limits).digest == site.digest:
                    return location.parent
        return location
