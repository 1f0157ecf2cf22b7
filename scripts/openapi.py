"""Print the OpenAPI document of the HTTP API: `python scripts/openapi.py`."""

from __future__ import annotations

import json
import sys
from typing import Any, cast

from prowess.interfaces.rest.app import make_api


def main() -> None:
    """Print it. No route is called, so no engine is needed."""
    json.dump(make_api(cast("Any", None)).openapi(), sys.stdout)


if __name__ == "__main__":
    main()
