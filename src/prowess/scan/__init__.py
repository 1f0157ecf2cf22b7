"""Static scan of a skill: what its files appear to do, with line and excerpt. Advice for a person; nothing runs, nothing raises.

    findings = scan_package(package)

Every file is read by a parser of its language: Python's `ast`, tree-sitter's grammars for shell and TypeScript, markdown by
blocks and sentences, configuration by its commands. Data is followed from its source (a key file, a download) to its
destination (a request, `exec`).
"""

from prowess.scan.finding import KINDS, SEVERITIES, Finding, FindingKind, Severity, count_dangers
from prowess.scan.package_scan import SCANNER_VERSION, scan_package

__all__ = [
    "KINDS",
    "SCANNER_VERSION",
    "SEVERITIES",
    "Finding",
    "FindingKind",
    "Severity",
    "count_dangers",
    "scan_package",
]
