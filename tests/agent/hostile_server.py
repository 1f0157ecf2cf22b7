"""A connector whose every result is the text of a file, and which writes down what it was called with.

Usage: hostile_server.py RESULT_FILE LOG_FILE.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "connectors"))
from scripted_server import Server


class HostileServer(Server):
    def __init__(self, result, log):
        super().__init__("plain")
        self.result_file, self.log = Path(result), Path(log)

    def call(self, name, arguments):
        with self.log.open("a") as notes:
            notes.write(f"{name}:{arguments.get('text', '')}\n")
        return {"content": [{"type": "text", "text": self.result_file.read_text()}]}


if __name__ == "__main__":
    sys.exit(HostileServer(*sys.argv[1:]).serve_stdio())
