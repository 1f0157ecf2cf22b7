"""The sidecar: a program that runs DSPy in a process and an environment of its own.

It is started as `PYTHON -I FOLDER`, where FOLDER is this package. It reads JSON lines from standard input and writes JSON
lines to standard output; `prowess/sidecar/protocol.py` describes the messages. It has no keys and no network: every model
call, tool call, score and program that it needs is asked of the process that started it. It imports its own requirements
only, never `prowess`.

    channel     lines in and out, and the calls that a request makes while it runs
    isolation   file descriptors, environment and the refusal of sockets and processes
    adjustments two changes to DSPy
    engine      the language model, tools, code and scores of DSPy, each answered by a call
    signatures  signatures from a specification that we check ourselves
    state       saved state, checked on its way in and cleaned on its way out
    options     options of templates and optimizers
    templates   the programs that can be named by `template_id`, and those of them that DSPy does not have
    optimizers  BootstrapFewShot, MIPROv2, SIMBA and GEPA, and the programs that they try
    requests    execute, optimize and manifest
    server      the loop that reads messages and hands them to threads
    start       the start of the process
"""
