"""Draw the terminal picture of the README from a real session: `python scripts/picture.py`.

`tests/docs/test_picture.py` fails if docs/assets/terminal.svg is not what the commands print today.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parent))
from console import ROOT, Terminal

PICTURE = ROOT / "docs/assets/terminal.svg"
COLUMNS = 92
SESSION = (
    "prowess match 'are there contradictions in my notes?'",
    "prowess match 'what shall we have for dinner?'",
    "prowess enable commit-messages --session demo",
    "prowess run word-count --input text='Measure twice, cut once.'",
)
THEME = TerminalTheme(
    (22, 24, 33),
    (214, 218, 230),
    [
        (22, 24, 33),
        (240, 113, 120),
        (126, 211, 143),
        (240, 198, 116),
        (122, 162, 247),
        (187, 154, 247),
        (125, 207, 255),
        (214, 218, 230),
    ],
)
# The format of rich without its web font and its window shadow: a picture in a README may not load anything.
FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
  <title>A terminal session with Prowess</title>
  <style>
  .{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
  .{unique_id}-title {{ font: 15px ui-sans-serif, system-ui, sans-serif; }}
  {styles}
  </style>
  <defs>
  <clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
  {lines}
  </defs>
  {chrome}
  <g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
  {backgrounds}
  <g class="{unique_id}-matrix">
  {matrix}
  </g>
  </g>
</svg>
"""


def picture(home: Path) -> str:
    """Return the picture as SVG."""
    terminal = Terminal(home)
    terminal.give_sandbox()
    # With all vectors computed, a loaded machine changes no score.
    for line in (
        "cd examples/workspace",
        "prowess trust",
        "prowess import ../more/word-count",
        "prowess doctor --index",
    ):
        terminal.run(line)
    terminal.use_colors(COLUMNS)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for number, line in enumerate(SESSION):
        console.print("\n" * bool(number) + f"[bold green]$[/] [bold]{line}[/]", highlight=False)
        console.print(Text.from_ansi(terminal.run(line).rstrip()))
    return console.export_svg(title="~/notes", theme=THEME, code_format=FORMAT, unique_id="terminal")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PICTURE.write_text(picture(Path(folder).resolve() / "home"))
