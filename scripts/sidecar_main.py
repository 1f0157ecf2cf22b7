"""Start the sidecar in its single-file binary. The package is imported, so that DSPy can read the source of its classes."""

from prowess_dspy.start import main

main()
