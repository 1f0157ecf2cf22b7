"""Run the sidecar from its folder: `python -I path/to/prowess_dspy`."""

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
# The folder is loaded as a package without putting its parent on the path: the parent is the site-packages of another
# environment, whose packages must not be found from here.
sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != FOLDER]
spec = importlib.util.spec_from_file_location(
    "prowess_dspy", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
)
if spec is None or spec.loader is None:
    sys.exit(f"{FOLDER} cannot be loaded as a package.")
package = importlib.util.module_from_spec(spec)
sys.modules["prowess_dspy"] = package
spec.loader.exec_module(package)

from prowess_dspy.start import main  # noqa: E402 - the package exists only now

main()
