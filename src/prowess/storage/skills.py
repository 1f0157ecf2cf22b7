"""Store skills as rows of `skills` and read them back, one tenant at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern
from prowess.skill.filenames import document_text, hash_content
from prowess.skill.form_info import FormName
from prowess.skill.kinds import Kind, construct
from prowess.skill.model import Provenance, Skill, SkillCard, SourceName
from prowess.skill.package import FileEntry, Package
from prowess.skill.reader_version import is_current, reader_version
from prowess.storage.blobs import changed_bytes, dump_manifest, load_manifest, split_chunks
from prowess.storage.index_texts import Texts
from prowess.storage.org_settings import DISABLED_SKILLS, get_settings
from prowess.storage.owner import Tenant
from prowess.storage.rows import CompiledSelect, LazyStatements, decode_json, field_defaults
from prowess.storage.seals import Seals, SealState, seals_of

ORIGIN = ("source", "source_type", "source_url", "source_ref", "source_id", "marketplace_id", "sync_etag")
"""The columns that say where a skill came from."""

KEY_TEXTS = ("slug", "id", "digest", "package", "created_at", "updated_at")
"""The other columns of a key."""

KEY_LENGTH = len(KEY_TEXTS) + len(ORIGIN)

_DATE = lazy_pattern(r"[0-9T:.+Z-]{10,40}")
_SOURCE_TYPES = frozenset(get_args(Provenance.model_fields["source_type"].annotation)) - {"manual"}


class SkillKey(NamedTuple):
    """The identity of a stored skill: the same key always means the same skill, because the digest identifies its files."""

    slug: str
    id: str
    digest: str
    package: str
    created_at: str
    updated_at: str
    provenance: Provenance | None = None
    """The source that a sync recorded; None for a skill that was written or imported here."""


def as_text(value: object) -> str:
    """Return the value of a text column. SQLite stores bytes there, too, if another program writes them."""
    return value if type(value) is str else ""


def read_key(row: Sequence[Any]) -> SkillKey:
    """Return the key in a row. A value that Prowess does not write becomes '', and the skill is then not served."""
    slug, skill_id, digest, package, *dates = map(as_text, row[: len(KEY_TEXTS)])
    # The dates are shown as they are, so they must not carry other text.
    created_at, updated_at = (date if _DATE.fullmatch(date) else "" for date in dates)
    provenance = _read_provenance(row[len(KEY_TEXTS) : KEY_LENGTH])
    return SkillKey(slug, skill_id, digest, package, created_at, updated_at, provenance)


def key_of(skill: Skill, package: str) -> SkillKey:
    """Return the key that the row of a skill has, stored with a package of this name."""
    texts = (skill.slug, skill.id, skill.digest, package, skill.created_at, skill.updated_at)
    return read_key((*texts, *(getattr(skill.provenance, name) for name in ORIGIN)))


def _read_provenance(values: Sequence[Any]) -> Provenance | None:
    fields = {name: value for name, value in zip(ORIGIN, values, strict=True) if type(value) is str}
    if fields.get("source_type") not in _SOURCE_TYPES or fields.get("source") not in get_args(SourceName):
        return None
    return Provenance.model_validate(fields)


if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import skills as sql
else:
    sql = LazyStatements("skills")

_COLUMNS = {
    *("slug", "title", "description", "version", "author", "form", "digest", "content_length", "id"),
    *("created_at", "updated_at", "tags", "trigger_phrases", "intent_patterns"),
    *("provenance", "artifacts", "manifest", "scope", "location", "people_only"),
}
_SAME_COLUMNS = (
    *("id", "slug", "description", "version", "digest", "form", "author"),
    *("created_at", "updated_at", "content_length", "people_only"),
)
"""The fields of a skill that are columns of the same name, and need no conversion."""
# Every other field of a skill, also ones added later, is stored in one document.
_DETAILS = tuple(name for name in Skill.model_fields if name not in _COLUMNS)
_DEFAULTS = field_defaults(Skill, _DETAILS)
_CARD_DEFAULTS = field_defaults(SkillCard, tuple(SkillCard.model_fields))

_FEW = 200

DAMAGE = (ValueError, TypeError, KeyError, AttributeError)
"""The exceptions of reading a row into which another program wrote an impossible value."""


class StoredSkill(NamedTuple):
    """The stored state of a skill: its key, the version of the readers that derived the row, and the row's seal."""

    key: SkillKey
    reader: str
    seal: str


class Mark(NamedTuple):
    """What the index says of a row: the version of the readers, the seal, and whether only people start the skill."""

    reader: str = ""
    seal: str = ""
    people_only: bool = False


class CardListing(NamedTuple):
    """The cards of the rows that this installation sealed, and the slugs of all other rows."""

    cards: list[SkillCard]
    stale: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles:
    """The files of a skill without their bytes."""

    slug: str
    digest: str
    form: FormName
    package: str
    manifest: tuple[FileEntry, ...]


def get_cards(connection: sa.Connection, tenant: Tenant) -> CardListing:
    """Return the cards of all skills whose row is current and as this installation wrote it."""
    marks, seals, owner = get_marks(connection, tenant), seals_of(connection), _owner(tenant)
    listing = CardListing([], [])
    for slug, title, description, version, tags, source, digest, kinds, chars in sql.CARDS.rows(connection, tenant.key):
        try:
            mark = marks.get(slug, Mark())
            card = {
                **_CARD_DEFAULTS,
                "slug": slug,
                "title": title,
                "description": description,
                "version": version,
                "tags": tuple(decode_json(tags)),
                "scope": tenant.scope,
                "source": source,
                "digest": digest,
                "kinds": tuple(decode_json(kinds)),
                "chars": chars,
                "people_only": mark.people_only,
            }
            group = _card_group(owner, mark.reader, card)
            valid = is_current(mark.reader) and seals.check(mark.seal, 0, group) == "valid"
        except DAMAGE:
            valid, card = False, {}
        if valid:
            listing.cards.append(construct(SkillCard, card, set(card)))
        elif type(slug) is str:
            listing.stale.append(slug)
    return listing


def get_marks(connection: sa.Connection, tenant: Tenant, slugs: Collection[str] | None = None) -> dict[str, Mark]:
    """Return the mark of each row, or of the rows of these slugs, by slug."""
    if slugs is not None and len(slugs) <= _FEW:
        rows = sql.MARKS_OF.rows(connection, {**tenant.key, "of": list(slugs)})
    else:
        rows = sql.MARKS.rows(connection, tenant.key)
    return {
        slug: Mark(as_text(reader), as_text(seal), people_only == 1)
        for slug, reader, seal, people_only in rows
        if type(slug) is str
    }


def check_seal(connection: sa.Connection, tenant: Tenant, stored: StoredSkill, skill: Skill) -> SealState:
    """Return whether the row of a skill was sealed for the content of the skill's files."""
    seals, groups = seals_of(connection), _groups(skill, stored.reader, tenant)
    card = seals.check(stored.seal, 0, groups[0])
    return seals.check(stored.seal, 1, groups[1]) if card == "valid" else card


def is_foreign(connection: sa.Connection, stored: StoredSkill) -> bool:
    """Return True if another installation sealed a row."""
    return seals_of(connection).check(stored.seal, 0, ()) == "foreign"


def check_texts(seals: Seals, mark: Mark, texts: Texts) -> bool:
    """Return True if a row was sealed with these texts for the search index."""
    return seals.check(mark.seal, 1, _texts_group(mark.people_only, texts)) == "valid"


def _texts_group(people_only: bool, texts: Texts) -> tuple[object, ...]:
    """Return the values that the second checksum of a seal covers: the texts, the long one by its hash, which is faster to compute."""
    return (people_only, *texts[:-1], hashlib.blake2b(texts[-1].encode("utf-8", "surrogatepass")).hexdigest())


def _owner(tenant: Tenant) -> str:
    return "\0".join(tenant.key.values())


def _card_group(owner: str, reader: str, card: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the values that the first checksum of a seal covers: the card, its owner, and how it was read."""
    return (owner, reader, *_sealed_values(card))


_sealed_values = itemgetter(
    *("slug", "title", "description", "version", "tags", "source", "digest", "kinds", "chars", "people_only")
)


def _groups(skill: Skill, reader: str, tenant: Tenant) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return the values that the checksums of a seal cover: the card, and the texts of the search index."""
    card = skill.card.__dict__
    texts = (
        skill.slug,
        skill.title,
        skill.searched_description,
        skill.version,
        skill.digest,
        skill.tags,
        skill.trigger_phrases,
        skill.intent_patterns,
        skill.when_to_use or "",
        skill.keywords,
        skill.content_length,
        skill.body,
    )
    return _card_group(_owner(tenant), reader, card), _texts_group(skill.people_only, texts)


def has_kinds(connection: sa.Connection, tenant: Tenant, kinds: Collection[Kind]) -> bool:
    """Return True if a skill has an artifact of one of these kinds, or if there is any skill when none is given."""
    if not kinds:
        return sql.ANY_SLUG.first(connection, tenant.key) is not None
    return connection.execute(sql.of_kinds(kinds), tenant.key).first() is not None


def get_stale(connection: sa.Connection, tenant: Tenant) -> list[str]:
    """Return the slugs of the skills that another version of the readers derived, sorted."""
    rows = sql.OTHER_READER.rows(connection, {**tenant.key, "reader": reader_version()})
    return sorted(slug for slug, reader in rows if type(slug) is str and not is_current(as_text(reader)))


def get_slugs(connection: sa.Connection, tenant: Tenant) -> list[str]:
    """Return the slugs of all skills."""
    return sorted(slug for (slug,) in sql.SLUGS.rows(connection, tenant.key))


def get_digests(connection: sa.Connection, tenant: Tenant) -> dict[str, str]:
    """Return the digest of every skill, by slug."""
    return {as_text(slug): as_text(digest) for slug, digest in sql.DIGESTS.rows(connection, tenant.key)}


def get_key(connection: sa.Connection, tenant: Tenant, id: str) -> SkillKey | None:
    """Return the key of a skill by id, or None."""
    return _first_key(sql.BY_ID.rows(connection, {**tenant.key, "which": id}))


def get_key_by_slug(connection: sa.Connection, tenant: Tenant, slug: str) -> SkillKey | None:
    """Return the key of a skill by slug, or None."""
    return _first_key(sql.BY_SLUG.rows(connection, {**tenant.key, "which": slug}))


def _first_key(rows: Sequence[Sequence[Any]]) -> SkillKey | None:
    return read_key(rows[0]) if rows else None


def get_files(connection: sa.Connection, tenant: Tenant, id: str) -> StoredFiles | None:
    """Return the files of a skill without their bytes; raise `Invalid` if its manifest was changed."""
    row = sql.FILES.rows(connection, {**tenant.key, "which": id})
    if not row:
        return None
    slug, digest, form, package, manifest = row[0]
    try:
        entries = load_manifest(decode_json(manifest))
    except DAMAGE as error:
        raise changed_bytes(as_text(slug)) from error
    return StoredFiles(slug=as_text(slug), digest=digest, form=form, package=package, manifest=entries)


def get_stored(connection: sa.Connection, tenant: Tenant, slugs: Sequence[str]) -> dict[str, StoredSkill]:
    """Return the stored state of these slugs."""
    return _stored(connection, tenant, slugs, sql.STORED)


def lock_by_slug(connection: sa.Connection, tenant: Tenant, slugs: Sequence[str]) -> dict[str, StoredSkill]:
    """Return the stored state of these slugs, locked against other writers until the transaction ends."""
    if len(slugs) == 1:  # most writes are about one skill
        rows = sql.STATE_LOCKED.rows(connection, {**tenant.key, "of": slugs[0]})
        return {row[0]: _stored_skill(row) for row in rows}
    return _stored(connection, tenant, slugs, sql.STORED_LOCKED)


def _stored(
    connection: sa.Connection, tenant: Tenant, slugs: Sequence[str], query: CompiledSelect
) -> dict[str, StoredSkill]:
    found: dict[str, StoredSkill] = {}
    for chunk in split_chunks(sorted(slugs)):
        for row in query.rows(connection, {**tenant.key, "of": chunk}):
            found[row[0]] = _stored_skill(row)
    return found


def _stored_skill(row: Sequence[Any]) -> StoredSkill:
    reader, seal = row[KEY_LENGTH:]
    return StoredSkill(key=read_key(row[:KEY_LENGTH]), reader=as_text(reader), seal=as_text(seal))


def lock_files(connection: sa.Connection, tenant: Tenant, id: str) -> StoredFiles | None:
    """Return the files of a skill, locked against other writers. A manifest that cannot be read is empty."""
    row = sql.FILES_LOCKED.first(connection, {**tenant.key, "which": id})
    if row is None:
        return None
    slug, digest, form, package, manifest = row
    try:
        entries = load_manifest(decode_json(manifest))
    except DAMAGE:
        entries = ()  # a skill that is damaged can still be deleted
    return StoredFiles(slug=slug, digest=digest, form=form, package=package, manifest=entries)


def taken_ids(connection: sa.Connection, ids: Iterable[str]) -> set[str]:
    """Return which of these ids are in use by any tenant."""
    found: set[str] = set()
    for chunk in split_chunks(sorted(set(ids))):
        found.update(skill_id for (skill_id,) in sql.TAKEN.rows(connection, {"of": chunk}))
    return found


def insert_skills(connection: sa.Connection, tenant: Tenant, pairs: Iterable[tuple[Skill, Package]]) -> None:
    """Add rows for new skills."""
    rows = [_row(skill, package, tenant, seals_of(connection)) for skill, package in pairs]
    if rows:
        # A slug may be switched off before its skill exists, or while it is gone.
        off = get_settings(connection, tenant.organization_id or "").get(DISABLED_SKILLS) or ()
        sql.INSERT.run(connection, [{**row, "enabled": row["slug"] not in off} for row in rows])


def mark_disabled(connection: sa.Connection, organization_id: str, slugs: Collection[str]) -> None:
    """Write the column `enabled` of all skills of an organization: False for these slugs."""
    parameters = {"of": organization_id, "off": sorted(slugs)}
    connection.execute(sql.SWITCH_OFF, parameters)
    connection.execute(sql.SWITCH_ON, parameters)


def update_skills(connection: sa.Connection, tenant: Tenant, pairs: Iterable[tuple[Skill, Package]]) -> None:
    """Replace the rows of skills that exist."""
    seals = seals_of(connection)
    rows = [{**_row(skill, package, tenant, seals), **tenant.key, "which": skill.id} for skill, package in pairs]
    if rows:
        sql.UPDATE.run(connection, rows)


def delete_skill(connection: sa.Connection, tenant: Tenant, id: str) -> None:
    """Delete a skill and its artifacts."""
    sql.DELETE.run(connection, [{**tenant.key, "which": id}])


def _row(skill: Skill, package: Package, tenant: Tenant, seals: Seals) -> dict[str, Any]:
    content = document_text(skill.form, package)
    reader = reader_version((*skill.kinds, skill.form))
    values: Mapping[str, Any] = {name: getattr(skill, name) for name in _DETAILS}
    return {
        **tenant.columns,
        **{name: getattr(skill.provenance, name) for name in ORIGIN},
        **{name: getattr(skill, name) for name in _SAME_COLUMNS},
        "name": skill.title,
        "tags": list(skill.tags),
        "kinds": list(skill.kinds),
        "reader": reader,
        "seal": seals.make(*_groups(skill, reader, tenant)),
        "intent_patterns": list(skill.intent_patterns),
        "trigger_phrases": list(skill.trigger_phrases),
        "content_hash": hash_content(content, skill.digest),
        "package": package.name,
        "manifest": dump_manifest(skill.manifest),
        "details": {name: value for name, value in values.items() if value != _DEFAULTS[name]},
        "content": content,
    }
