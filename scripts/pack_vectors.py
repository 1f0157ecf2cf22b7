"""Write the vectors of the skills that come with Prowess, so that they need not be computed where these are matched.

Run it after changing a pack or the default embedder: `python scripts/pack_vectors.py`. A test fails until then.
"""

from __future__ import annotations

import tempfile

from prowess.catalog.catalog import Catalog
from prowess.engine.matcher import PACK_VECTORS
from prowess.engine.stores import Stores
from prowess.match.index import Index
from prowess.match.vectors.card_vectors import CardVectors
from prowess.match.vectors.vector_table import merge_tables, write_table
from prowess.settings import read_settings


def main() -> None:
    """Index the skills of an empty installation, and write their vectors."""
    with tempfile.TemporaryDirectory() as empty:
        stores = Stores(read_settings({"HOME": empty}, workspace=empty))
        index = Index.build(Catalog(stores.present).documents())
        stores.close()
    cards = CardVectors(None, index.embedder)
    index.with_all_vectors(cards)
    write_table(PACK_VECTORS, merge_tables(cards.tables()), index.embedder.name)
    print(f"{PACK_VECTORS.name}: {index.size} skills, {PACK_VECTORS.stat().st_size:,} bytes, {index.embedder.name}")


if __name__ == "__main__":
    main()
