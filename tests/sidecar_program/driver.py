"""The other end of the pipes: starts the sidecar's program and answers its calls from scripts."""

import contextlib
import json
import os
import re
import subprocess
from collections import deque
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "src" / "prowess_dspy"


class Reply(Exception):
    """Makes an answer to a call an error."""

    def __init__(self, type, message):
        super().__init__(message)
        self.type = type


class Driver:
    """A sidecar process. `request` answers the calls that come before the result with the functions given."""

    def __init__(self, python, *, command=None, **environment):
        self.process = subprocess.Popen(
            command or [str(python), "-I", str(FOLDER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], **environment},
        )
        self.hello = self.read()["hello"]
        self.numbers = iter(range(1, 1_000_000))
        self.calls = []
        self.events = []

    def write(self, message):
        self.write_line(json.dumps(message).encode())

    def write_line(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        assert line, f"the sidecar ended with {self.process.wait()}"
        return json.loads(line)

    def start(self, type, **fields):
        number = next(self.numbers)
        self.calls, self.events = [], []
        self.write({"id": number, "type": type, **fields})
        return number

    def request(self, type, answers=None, **fields):
        return self.finish(self.start(type, **fields), answers or {})

    def finish(self, number, answers):
        while True:
            message = self.read()
            if "call" in message:
                self.answer(message, answers)
            elif "event" in message:
                assert message["id"] == number
                self.events.append(message)
            else:
                assert message["id"] == number
                return message

    def answer(self, message, answers):
        kind, payload = message["kind"], message["payload"]
        self.calls.append((kind, payload))
        try:
            self.write({"reply": message["call"], "value": answers[kind](payload)})
        except Reply as error:
            self.write({"reply": message["call"], "error": {"type": error.type, "message": str(error)}})

    def result(self, type, answers=None, **fields):
        answer = self.request(type, answers, **fields)
        assert answer["ok"], answer
        return answer["result"]

    def error(self, type, answers=None, **fields):
        answer = self.request(type, answers, **fields)
        assert not answer["ok"], answer
        return answer["error"]["type"]

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


def output_fields(payload):
    """Return the output fields that a prompt of DSPy's ChatAdapter asks for, with their types."""
    listing = re.search(r"Your output fields are:\n(.*?)\nAll interactions", payload["messages"][0]["text"], re.DOTALL)
    return re.findall(r"`(\w+)` \(([^)]*)\)", listing[1]) if listing else []


def last_input(payload, field):
    found = re.findall(rf"\[\[ ## {field} ## \]\]\n(.*?)(?:\n\n|$)", payload["messages"][-1]["text"], re.DOTALL)
    return found[-1] if found else None


def text_of(fields):
    blocks = [f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items()]
    return {"text": "\n\n".join([*blocks, "[[ ## completed ## ]]"]), "usage": {"input_tokens": 10, "output_tokens": 5}}


def model(**values):
    """A model that answers each output field with a value, or with a function of the payload."""

    def llm(payload):
        fields = {}
        for name, type_name in output_fields(payload):
            value = values.get(name)
            if value is None:
                value = {"list": "[]", "dict": "{}"}.get(type_name.split("[")[0], "some text")
            fields[name] = value(payload) if callable(value) else value
        if "Outputs will be a JSON object" in payload["messages"][0]["text"]:
            return {"text": json.dumps(fields)}
        return text_of(fields)

    return llm


def sequence(*values):
    queue = deque(values)
    return lambda _payload: queue.popleft()
