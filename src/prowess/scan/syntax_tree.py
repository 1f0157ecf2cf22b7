"""Parse code of strangers with tree-sitter.

For some texts its parsers take time, and for some memory as well, with the square of the length: 20 KB of `a|a|a|…` took 7
seconds and 930 MB, and they cannot be stopped. So little is parsed in this process, and the rest in one that can be killed.
"""

from __future__ import annotations

from typing import Any

from prowess.scan.finding import Report


def parse(report: Report, text: str, language: Any) -> Any:
    """Return the root of the syntax tree of a text. Text with errors has a tree too, with error nodes in it.

    Raise `LongCodeError` if the code may take too long for this process.
    """
    import tree_sitter

    source = text.encode("utf-8", "replace")
    report.budget.spend_parsing(len(source))
    return tree_sitter.Parser(language).parse(source).root_node
