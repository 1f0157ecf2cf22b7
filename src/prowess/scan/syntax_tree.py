"""Parse code of strangers, with tree-sitter or Python's own parser.

For some texts the parsers of tree-sitter take time, and for some memory as well, with the square of the length or more: 20 KB of
`a|a|a|…` took 7 seconds and 930 MB, and they cannot be stopped. So little is parsed in this process, and the rest in one that can be killed.
"""

from __future__ import annotations

import ast
import sys
import threading
import warnings
from typing import Any

from prowess.scan.finding import Report
from prowess.skill.python_source import is_parseable

_warnings_lock = threading.Lock()


def parse(report: Report, text: str, language: Any) -> Any:
    """Return the root of the syntax tree of a text. Text with errors has a tree too, with error nodes in it.

    Raise `LongCodeError` if the code may take too long for this process.
    """
    import tree_sitter

    source = text.encode("utf-8", "replace")
    report.budget.spend_parsing(len(source))
    return tree_sitter.Parser(language).parse(source).root_node


def parse_python(report: Report, text: str) -> ast.Module | None:
    """Return the syntax tree of Python code; None, with a warning about a file, for code that cannot be parsed."""
    source = text.replace("\r\n", "\n").lstrip("\ufeff")
    if not is_parseable(source):
        message = "The Python code is too large or nested too deeply: only its strings were scanned."
        report.add("warning", "not-scanned", None, message)
        return None
    try:
        # Python warns about odd escapes, and a warning may be an error in this process. The filters are shared by all threads.
        with _warnings_lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Fragments are not worth a warning.
        if report.depth == 0 and report.first_line == 1:
            message = "The Python code has a syntax error for Python {}.{}: only its strings were scanned."
            report.add("warning", "not-scanned", None, message.format(*sys.version_info))
        return None
