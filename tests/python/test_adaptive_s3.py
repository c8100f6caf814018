"""Steps in an object store, through a server that speaks its protocol over HTTP."""

import logging
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import numpy
import pytest
import s3fs
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from numpy.typing import NDArray
from weir import adaptive
from werkzeug.serving import make_server

Array = NDArray[Any]
FIELD = Path(__file__).resolve().parents[1] / "data" / "fields" / "echam_t_17x96x192.npy"
BUCKET = "runs"
CHUNK_BYTES = 1 << 16


class Server:
    """What is asked of an object store; some requests are refused as too many."""

    def __init__(self) -> None:
        self.application = DomainDispatcherApplication(create_backend_app)
        self.asked: list[tuple[str, str]] = []
        self.refusing = ""
        self.refusals = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] == "GET":
            self.asked.append((path, environ.get("HTTP_RANGE", "")))
            if self.refusals and self.refusing in path:
                self.refusals -= 1
                start_response("503 Slow Down", [("Content-Type", "application/xml")])
                return [b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"]
        return self.application(environ, start_response)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[tuple[Server, str]]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = Server()
    listener = make_server("127.0.0.1", 0, server, threaded=True)
    thread = Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    yield server, f"http://127.0.0.1:{listener.server_port}"
    listener.shutdown()
    listener.server_close()
    thread.join()


@pytest.fixture
def store(endpoint: tuple[Server, str], tmp_path: Path) -> Iterator[tuple[Server, list[adaptive.Tier | str], Any]]:
    server, url = endpoint
    options = {"key": "key", "secret": "secret", "client_kwargs": {"endpoint_url": url, "region_name": "us-west-2"}}
    files = s3fs.S3FileSystem(**options)
    files.mkdir(BUCKET)
    server.asked.clear()
    yield server, [str(tmp_path / "fast"), adaptive.Tier(f"s3://{BUCKET}/run", storage_options=options)], files
    server.refusals = 0
    files.rm(BUCKET, recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


def test_steps_go_to_an_object_store_and_back(store: tuple[Server, list[Any], Any]) -> None:
    server, tiers, files = store
    field = numpy.load(FIELD)
    adaptive.write(tiers, [field, field + 1], exact=True, chunk_bytes=CHUNK_BYTES)
    assert len(files.ls(f"{BUCKET}/run")) == 2
    server.asked.clear()
    steps = list(adaptive.open(tiers))
    assert numpy.array_equal(steps[0].data, field)
    assert numpy.array_equal(steps[1].data, field + 1)
    # Alone, as the only tier, it holds manifests and the list of steps too.
    only = adaptive.Tier(f"s3://{BUCKET}/alone", storage_options=tiers[1].storage_options)
    adaptive.write(only, [field], exact=True)
    assert numpy.array_equal(next(adaptive.open(only)).data, field)
    assert numpy.array_equal(next(adaptive.open(only, region=(0, slice(None), slice(9)))).data, field[:1, :, :9])


def test_only_the_ranges_are_read_that_are_wanted(store: tuple[Server, list[Any], Any]) -> None:
    server, tiers, _ = store
    adaptive.write(tiers, [numpy.load(FIELD)], chunk_bytes=CHUNK_BYTES)
    server.asked.clear()
    assert next(adaptive.open(tiers, policy="isolation")).tiers[1].read_bytes == 0
    assert not [path for path, _ in server.asked if path.endswith(".weir")]
    step = next(adaptive.open(tiers, accuracy=adaptive.Accuracy(bytes_max=100_000)))
    assert step.bytes_read == 100_000
    ranges = [wanted for path, wanted in server.asked if path.endswith(".weir")]
    spans = [tuple(map(int, wanted.removeprefix("bytes=").split("-"))) for wanted in ranges]
    assert sum(last + 1 - first for first, last in spans) == step.tiers[1].read_bytes


def test_an_object_that_is_gone_or_short_is_named(store: tuple[Server, list[Any], Any]) -> None:
    _, tiers, files = store
    field = numpy.load(FIELD)
    adaptive.write(tiers, [field, field, field], chunk_bytes=CHUNK_BYTES)
    gone, short, _ = sorted(files.ls(f"{BUCKET}/run"))
    files.rm_file(gone)
    files.pipe_file(short, files.cat_file(short)[:-1000])
    reader = adaptive.open(tiers)
    for number, name, words in ((0, gone, "it is gone"), (1, short, "truncated")):
        with pytest.raises(adaptive.StepError, match=f"step {number}: s3://{name}: .*{words}"):
            next(reader)
    assert next(reader).number == 2
    with pytest.raises(adaptive.AdaptiveError, match="no stream"):
        adaptive.open(adaptive.Tier(f"s3://{BUCKET}/nothing", storage_options=tiers[1].storage_options))
    with pytest.raises(adaptive.AdaptiveError, match="no-such-bucket"):
        adaptive.open(adaptive.Tier("s3://no-such-bucket/run", storage_options=tiers[1].storage_options))


def test_a_store_that_asks_for_fewer_requests_is_asked_again(store: tuple[Server, list[Any], Any]) -> None:
    server, tiers, _ = store
    field = numpy.load(FIELD)
    adaptive.write(tiers, [field], exact=True, chunk_bytes=CHUNK_BYTES)
    server.refusing, server.refusals = "00000000.1", 2
    assert numpy.array_equal(next(adaptive.open(tiers)).data, field)
    assert server.refusals == 0
    # One that refuses without end costs no more than the deadline.
    server.refusals = 1 << 30
    step = next(adaptive.open(tiers, deadline_seconds=1.0, tolerant=True))
    assert step.augmentation < 1.0
    assert numpy.abs(step.data - field).max() <= step.max_error


def test_a_store_that_is_not_there_is_told() -> None:
    client = {"endpoint_url": "http://127.0.0.1:9", "region_name": "us-west-2"}
    account = {"key": "key", "secret": "secret", "config_kwargs": {"retries": {"max_attempts": 0}}}
    nowhere = adaptive.Tier("s3://runs/run", storage_options={**account, "client_kwargs": client})
    for act in (lambda: adaptive.open(nowhere), lambda: adaptive.write(nowhere, [])):
        with pytest.raises(adaptive.AdaptiveError, match=r"tier s3://runs/run cannot be .*127\.0\.0\.1:9"):
            act()
