"""Build the interpreter of the sandbox and pack it for the wheel: `python scripts/component.py`.

A wheel built afterwards contains it, so users of that wheel need not build it.
"""

from __future__ import annotations

import lzma
import tempfile
from pathlib import Path

from prowess.sandbox.wasm.component import PREBUILT, ensure_guest


def main() -> None:
    """Build and pack the interpreter, and remove older ones."""
    with tempfile.TemporaryDirectory() as home:
        guest = ensure_guest(Path(home), print)
        packed = lzma.compress(guest.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
    PREBUILT.mkdir(exist_ok=True)
    for old in PREBUILT.glob("*.xz"):
        old.unlink()
    target = PREBUILT / f"{guest.name}.xz"
    target.write_bytes(packed)
    print(f"{target.name}: {len(packed):,} bytes")


if __name__ == "__main__":
    main()
