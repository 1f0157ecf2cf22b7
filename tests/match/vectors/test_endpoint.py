"""A server of embeddings is asked within a deadline, and nothing it may answer breaks the asker or shows the key."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
from http.server import HTTPServer
from threading import Thread

import numpy as np
import pytest

from prowess.errors import Invalid, Unavailable
from prowess.match.vectors import endpoint
from prowess.match.vectors.endpoint import ATTEMPTS, BATCH_SIZE, EndpointEmbedder
from prowess.net.connection import default_tls

KEY = "sk-very-secret"


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def ask(embedding_server, pauses):
    """Embed two texts at the server, without waiting between attempts; the dimensions are known."""
    embedder = EndpointEmbedder(embedding_server.url, "tiny", api_key=KEY, deadline=20, sleep=pauses.append)
    assert embedder.dimensions == 3
    embedding_server.requests.clear()

    def embed(*texts: str):
        return embedder.embed(texts or ("one", "two"))

    return embed


def status(code: int, **headers: str):
    def respond(handler, texts):
        handler.server_version = "test"
        body = f'{{"error": "wrong key {KEY}"}}'.encode()
        handler.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return respond


def content(body: bytes):
    def respond(handler, texts):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return respond


def data(*embeddings, indices=None):
    indices = range(len(embeddings)) if indices is None else indices
    entries = [{"index": index, "embedding": one} for index, one in zip(indices, embeddings, strict=True)]
    return content(json.dumps({"data": entries}).encode())


def hang_up(handler, texts):
    handler.connection.shutdown(socket.SHUT_RDWR)


def test_the_request_is_what_openai_defines(embedding_server, ask):
    ask("one", "two")
    (request,) = embedding_server.requests
    assert request["path"] == "/v1/embeddings"
    assert request["model"] == "tiny"
    assert request["input"] == ["one", "two"]
    assert request["headers"]["Authorization"] == f"Bearer {KEY}"
    assert request["headers"]["Content-Type"] == "application/json"


def test_without_a_key_none_is_sent(embedding_server):
    EndpointEmbedder(embedding_server.url + "/", "tiny").embed(["one"])
    assert "Authorization" not in embedding_server.requests[0]["headers"]
    assert embedding_server.requests[0]["path"] == "/v1/embeddings"


def test_many_texts_go_in_batches_and_blank_ones_not_at_all(embedding_server, ask):
    texts = [f"text {number}" if number % 10 else " " for number in range(300)]
    rows = ask(*texts)
    sent = [request["input"] for request in embedding_server.requests]
    assert [len(batch) for batch in sent] == [BATCH_SIZE, BATCH_SIZE, 270 - 2 * BATCH_SIZE]
    assert [text for batch in sent for text in batch] == [text for text in texts if text.strip()]
    assert [bool(row.any()) for row in rows] == [bool(text.strip()) for text in texts]


def test_vectors_are_put_in_the_order_of_their_index(embedding_server, ask):
    embedding_server.script.append(data([0, 1, 0], [1, 0, 0], indices=[1, 0]))
    assert ask("one", "two").tolist() == [[127, 0, 0], [0, 127, 0]]


def test_the_name_tells_server_and_model_without_asking(embedding_server):
    embedder = EndpointEmbedder(embedding_server.url, "tiny")
    assert embedder.name == f"endpoint:{embedding_server.url}:tiny"
    assert embedding_server.requests == []
    embedder.embed(["one"])
    assert len(embedding_server.requests) == 2


def test_a_server_that_failed_is_left_alone_for_a_while(embedding_server, pauses):
    embedder = EndpointEmbedder(embedding_server.url, "tiny", sleep=pauses.append, rest=1_000.0)
    embedding_server.script += [status(500)] * 4
    for _ in range(2):
        with pytest.raises(Unavailable):
            embedder.embed(["one", "two"])
    assert len(embedding_server.requests) == 1


def test_a_server_that_failed_is_asked_again_after_that(embedding_server, pauses):
    embedder = EndpointEmbedder(embedding_server.url, "tiny", sleep=pauses.append, rest=0.0)
    embedding_server.script += [status(500)]
    with pytest.raises(Unavailable):
        embedder.embed(["one"])
    assert embedder.embed(["one"]).any()


@pytest.mark.parametrize(
    "failure", [status(500), status(503), status(429), hang_up], ids=["500", "503", "429", "hang up"]
)
def test_a_failure_that_may_pass_is_tried_again(embedding_server, ask, pauses, failure):
    embedding_server.script += [failure, failure]
    assert ask().any()
    assert pauses == [0.5, 1.0]


def test_a_server_may_ask_for_a_longer_pause(embedding_server, ask, pauses):
    embedding_server.script += [status(429, Retry_After="7"), status(503, Retry_After="Fri, 31 Dec 1999 23:59:59 GMT")]
    assert ask().any()
    assert pauses == [7.0, 1.0]


def test_a_pause_beyond_the_deadline_is_not_waited_for(embedding_server, ask, pauses):
    embedding_server.script.append(status(429, Retry_After="3600"))
    with pytest.raises(Unavailable, match="429"):
        ask()
    assert pauses == []


def test_after_some_attempts_it_gives_up(embedding_server, ask, pauses):
    embedding_server.script += [status(500)] * 10
    with pytest.raises(Unavailable, match="status 500") as caught:
        ask()
    assert caught.value.hint
    assert len(embedding_server.requests) == ATTEMPTS
    assert len(pauses) == ATTEMPTS - 1


@pytest.mark.parametrize(
    ("code", "hint"), [(400, "log"), (401, "API key"), (403, "API key"), (404, "base URL"), (422, "log")]
)
def test_a_refusal_is_told_at_once_without_what_the_server_says(embedding_server, ask, pauses, code, hint):
    embedding_server.script.append(status(code))
    with pytest.raises(Unavailable, match=str(code)) as caught:
        ask()
    assert hint in caught.value.hint
    assert pauses == []
    assert KEY not in f"{caught.value}{caught.value.hint}{caught.getrepr(style='long')}"


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(embedding_server, ask, code):
    embedding_server.script.append(status(code, Location=f"{embedding_server.url}/elsewhere"))
    with pytest.raises(Unavailable, match="redirects"):
        ask()
    assert len(embedding_server.requests) == 1


@pytest.mark.parametrize(
    "malformed",
    [
        content(b""),
        content(b"<html>welcome</html>"),
        content(b"\xff\xfe\x00"),
        content(b"[" * 100_000),
        content(b"[1, 2]"),
        content(b"null"),
        content(b'{"data": null}'),
        content(b'{"data": {"index": 0}}'),
        content(b'{"data": [1, 2]}'),
        content(b'{"data": [{"index": [], "embedding": [1]}]}'),
        content(b'{"data": [{"index": 0, "embedding": [NaN, 1, 1]}, {"index": 1, "embedding": [1, 1, 1]}]}'),
        content(b'{"data": [{"index": 0, "embedding": [1e999, 1, 1]}, {"index": 1, "embedding": [1, 1, 1]}]}'),
        data([1, 0, 0]),
        data([1, 0, 0], [1, 0, 0], [1, 0, 0]),
        data([1, 0, 0], [1, 0, 0], indices=[0, 0]),
        data([1, 0, 0], [1, 0, 0], indices=[1, 2]),
        data([1, 0, 0], [1, 0]),
        data([1, 0, 0], []),
        data([], []),
        data([1, 0], [1, 0]),
        data([1, 0, "1"], [1, 0, 0]),
        data([1, 0, None], [1, 0, 0]),
        data([1, 0, True], [1, 0, 0]),
        data([1, 0, 10**400], [1, 0, 0]),
        data([[1], [0], [0]], [1, 0, 0]),
        data("AAAA", "BBBB"),
        data({"0": 1}, {"0": 1}),
    ],
)
def test_a_malformed_answer_is_unavailable(embedding_server, ask, malformed):
    embedding_server.script.append(malformed)
    with pytest.raises(Unavailable) as caught:
        ask("one", "two")
    assert caught.value.hint
    assert len(embedding_server.requests) == 1


def test_an_answer_without_end_is_not_read_to_its_end(embedding_server, ask, monkeypatch):
    monkeypatch.setattr(endpoint, "LARGEST_ANSWER", 100_000)

    def endless(handler, texts):
        handler.send_response(200)
        handler.end_headers()
        while not embedding_server.closing.is_set():
            handler.wfile.write(b" " * 65_536)

    embedding_server.script.append(endless)
    with pytest.raises(Unavailable, match="far larger"):
        ask()


def test_an_answer_that_breaks_off_is_tried_again(embedding_server, ask, pauses):
    def broken_off(handler, texts):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"data":')

    embedding_server.script.append(broken_off)
    assert ask().any()
    assert len(pauses) == 1


def drip(handler, server, head: bytes, drop: bytes) -> None:
    handler.wfile.write(head)
    while not server.closing.wait(0.01):
        handler.wfile.write(drop)
        handler.wfile.flush()


@pytest.mark.parametrize(
    ("head", "drop"),
    [(b"HTTP/1.1 200 OK\r\n\r\n", b" "), (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"y"), (b"", b"")],
    ids=["body", "headers", "silence"],
)
def test_a_trickle_does_not_extend_the_deadline(embedding_server, head, drop):
    embedding_server.script.append(lambda handler, _: drip(handler, embedding_server, head, drop))
    embedder = EndpointEmbedder(embedding_server.url, "tiny", deadline=0.3)
    with pytest.raises(Unavailable, match="in time"):
        embedder.embed(["one"])


def test_a_server_that_is_not_there_is_unavailable(pauses):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: whoever connects is turned away
        embedder = EndpointEmbedder(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", "tiny", sleep=pauses.append)
        with pytest.raises(Unavailable, match="cannot be reached") as caught:
            embedder.embed(["one"])
        assert pauses == []
        patient = EndpointEmbedder(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", "tiny", sleep=pauses.append)
        with pytest.raises(Unavailable):
            patient._asked(["one", "two"])
    assert "running" in caught.value.hint
    assert len(pauses) == ATTEMPTS - 1


def test_tls_to_a_server_without_it_is_unavailable(embedding_server, pauses):
    url = embedding_server.url.replace("http:", "https:")
    with pytest.raises(Unavailable, match="TLS"):
        EndpointEmbedder(url, "tiny", api_key=KEY, sleep=pauses.append).embed(["one"])
    assert embedding_server.requests == []


@pytest.mark.parametrize("trusted", [True, False])
def test_a_certificate_must_be_trusted(embedding_server, tmp_path, monkeypatch, pauses, trusted):
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate of this test, is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    default_tls.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    http = HTTPServer(("127.0.0.1", 0), embedding_server.handler())
    http.handle_error = lambda *_: None
    http.socket = context.wrap_socket(http.socket, server_side=True)
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        embedder = EndpointEmbedder(
            f"https://127.0.0.1:{http.server_port}/v1", "tiny", api_key=KEY, sleep=pauses.append
        )
        if trusted:
            assert embedder.embed(["one"]).any()
        else:
            with pytest.raises(Unavailable, match="trusted"):
                embedder.embed(["one"])
            assert embedding_server.requests == []
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
        default_tls.cache_clear()


@pytest.mark.parametrize(
    "url",
    ["", "host/v1", "ftp://host/v1", "http://", "https://user:pass@host/v1", "https://host/v1?a=b", "https://host/#x",
     "http://[::1", "http://host:99999/v1", "https://host/a b", "https://host/\r\nX: y", "https://hö.de/v1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url):
    with pytest.raises(Invalid) as caught:
        EndpointEmbedder(url, "tiny")
    assert caught.value.hint


@pytest.mark.parametrize("key", ["secret\nkey", "secret ", "\x00", "schlüssel"])
def test_what_is_no_key_is_refused_without_showing_it(key):
    with pytest.raises(Invalid) as caught:
        EndpointEmbedder("https://host/v1", "tiny", api_key=key)
    assert key not in caught.value.message + caught.value.hint


def test_a_key_is_not_sent_in_the_clear_to_another_machine():
    with pytest.raises(Invalid, match="over http"):
        EndpointEmbedder("http://models.example/v1", "tiny", api_key=KEY)
    for url in ("http://localhost:1/v1", "http://[::1]:1/v1", "http://127.0.0.2:1", "https://models.example/v1"):
        EndpointEmbedder(url, "tiny", api_key=KEY)
    EndpointEmbedder("http://models.example/v1", "tiny")


def test_the_key_is_not_in_the_representation():
    embedder = EndpointEmbedder("https://host/v1", "tiny", api_key=KEY)
    assert KEY not in f"{embedder!r} {embedder} {embedder._address!r}"
    assert "https://host/v1" in repr(embedder)


def test_a_model_that_changes_its_dimensions_is_noticed(embedding_server, ask):
    embedding_server.script.append(data([1, 0], [0, 1]))
    with pytest.raises(Unavailable, match="2 numbers per text, but returned 3"):
        ask("one", "two")


def test_a_row_of_zeros_stays_one(embedding_server, ask):
    embedding_server.script.append(data([0, 0, 0], [1, 0, 0]))
    assert np.array_equal(ask("one", "two"), [[0, 0, 0], [127, 0, 0]])
