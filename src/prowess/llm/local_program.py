"""The program that serves a local model in its own process: `python -I local_program.py`.

It reads one line of JSON with the options: `model` (the path of a GGUF file), `alias`, `key`, `threads` (that write),
`reading_threads`, `context`, `tokens` (the length limit of a reply) and `cache` (MiB for prompts that were read). It prints
one line: `{"url": …}` once it serves, or `{"problem": …}`. It listens on the loopback address only, requires the key,
downloads nothing, and exits when its input is closed, so it never outlives the process that started it.

It imports nothing of Prowess.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

LOOPBACK = "127.0.0.1"


def main() -> None:
    """Serve until the input ends."""
    answers = _claim_stdout()
    order = json.loads(sys.stdin.readline())
    try:
        server: Any = importlib.import_module("xllamacpp").Server(parameters(order))
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        answers.write(json.dumps({"problem": str(error)}) + "\n")
        answers.flush()
        os._exit(1)
    answers.write(json.dumps({"url": f"{server.listening_address}/v1"}) + "\n")
    answers.flush()
    # Returns when the parent closes its end, or dies.
    sys.stdin.read()
    os._exit(0)


def parameters(order: dict[str, Any]) -> Any:
    """Return the server's parameters, with everything off that we do not use, such as its web page."""
    parameters: Any = importlib.import_module("xllamacpp").CommonParams()
    parameters.model.path = order["model"]
    parameters.model_alias = [order["alias"]]
    parameters.hostnames = [LOOPBACK]
    # The kernel picks a free port; the parent reads it from our line.
    parameters.port = 0
    parameters.api_keys = [order["key"]]
    parameters.cors_origins = ""
    parameters.offline = True
    parameters.ui = parameters.endpoint_slots = parameters.endpoint_props = parameters.endpoint_metrics = False
    parameters.n_ctx = order["context"]
    parameters.n_predict = order["tokens"]
    parameters.sampling.penalty_repeat, parameters.sampling.penalty_last_n = (
        1.1,
        64,
    )  # or a small model repeats itself endlessly
    parameters.n_parallel = 1
    parameters.n_gpu_layers = 0
    # Keeps what was computed for earlier prompts, so that conversations that take turns do not read theirs again.
    parameters.cache_ram_mib = order["cache"]
    parameters.fit_params = parameters.warmup = False
    for processors, threads in ((parameters.cpuparams, "threads"), (parameters.cpuparams_batch, "reading_threads")):
        processors.n_threads = order[threads]
        # No busy waiting: measured with other load on the machine, spinning threads fall from 10 tokens/s below 1.
        processors.poll = 0
    return parameters


def _claim_stdout() -> Any:
    """Return stdout for our lines, and send what the library prints to the null device."""
    # By descriptor, not `sys.stdout`: the library prints from C++.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    return answers


if __name__ == "__main__":
    main()
