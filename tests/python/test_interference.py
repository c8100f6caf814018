"""Predictions of slowdown from windows."""

import gzip
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import slowdown_reference
import window_features
import windows as synthetic
from click.testing import CliRunner
from weir import cli
from weir.cli.interference.evaluate import ESTIMATORS
from weir.interference import predictor, quanterference
from weir.interference import windows as files
from weir.interference.errors import InterferenceError
from weir.interference.estimators import estimators, even_weights, prepare
from weir.interference.evaluation import BASELINES, classes_of, evaluate
from weir.interference.network import KernelNetwork
from weir.interference.splits import SPLITS
from weir.interference.windows import SERVER, STATISTICS, Windows

REAL = Path(__file__).parents[1] / "data/interference/windows.parquet"


@pytest.fixture(scope="module")
def windows() -> Windows:
    return synthetic.made(1)


def test_a_data_set_is_read_as_it_was_written(windows: Windows, tmp_path: Path) -> None:
    unlabelled = replace(windows, slowdowns=np.where(windows.numbers % 2 == 0, windows.slowdowns, np.nan))
    files.write(unlabelled, tmp_path / "one.parquet")
    read = files.read([tmp_path])
    for name in Windows.__dataclass_fields__:
        assert np.array_equal(
            getattr(read, name), getattr(unlabelled, name), equal_nan=name in ("slowdowns", "times")
        ), name
    assert len(read.labelled()) == len(windows) / 2


def test_data_sets_of_another_version_or_none_are_refused(windows: Windows, tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    path = tmp_path / "one.parquet"
    files.write(windows, path)
    table = parquet.read_table(path)
    parquet.write_table(table.replace_schema_metadata({b"weir.windows": json.dumps({"version": 9})}), path)
    with pytest.raises(InterferenceError, match="is of version 9, and version 2 is known"):
        files.read([path])
    parquet.write_table(table.replace_schema_metadata({}), path)
    with pytest.raises(InterferenceError, match="has no version"):
        files.read([path])
    parquet.write_table(table.drop_columns(["io_seconds"]), path)
    with pytest.raises(InterferenceError, match="has no column io_seconds"):
        files.read([path])
    path.write_text("no data set")
    with pytest.raises(InterferenceError, match="is no data set of windows"):
        files.read([path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InterferenceError, match="there are no windows"):
        files.read([tmp_path / "empty"])


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("slowdown", -1.0, "has no positive slowdown"),
        ("io_seconds", -1.0, "a negative time"),
        ("client_reads", float("inf"), "no finite numbers"),
        ("run", None, None),
    ],
)
def test_rows_that_mean_nothing_are_refused(column: str, value: Any, told: str | None) -> None:
    row: dict[str, Any] = {"run": "a", "workload": "a", "window": 0, "io_seconds": 1.0, "slowdown": 1.0, "server": "0"}
    if told is None:
        del row[column]
        told = "names no run"
    else:
        row[column] = value
    with pytest.raises(InterferenceError, match=told):
        files.of_rows([row])


def test_the_authors_windows_are_imported(tmp_path: Path) -> None:
    document = synthetic.of_the_authors(3)
    document["All"]["1"]["mdt_stats"] = {"mdt_read_ios_std": float("nan")}
    (tmp_path / "enzo").mkdir()
    plain, packed = tmp_path / "enzo" / "enzo_2_time_data.json", tmp_path / "enzo" / "enzo_3_time_data.json.gz"
    plain.write_text(json.dumps(document))
    packed.write_bytes(gzip.compress(json.dumps(document).encode()))
    read = quanterference.read_windows([plain, packed])
    assert set(read.workloads) == {"enzo"} and list(np.unique(read.runs)) == [
        "enzo/enzo_2_time_data",
        "enzo/enzo_3_time_data",
    ]
    assert list(read.numbers) == [1, 3, 10] * 2
    tenth = document["All"]["10"]
    assert read.slowdowns[2] == tenth["trace"]["total_time"]
    assert list(read.is_metadata[2]) == [False, False, True]
    assert read.client[2, 1, 3] == tenth["trace"]["ost"]["ost1_total_write_size"] * 1e6
    assert read.client[2, 2, 5] == tenth["trace"]["mdt"]["mdt_total_open"]
    place = SERVER.index("written_sectors") * len(STATISTICS) + STATISTICS.index("deviation")
    assert read.server[2, 0, place] == tenth["ost_stats"]["ost0_sectors_written_std"]
    assert not read.server[0, 2].any(), "short windows have no sample of each server"


def broken(what: str) -> bytes:
    document = synthetic.of_the_authors(4)
    if what == "no member":
        return b"{}"
    if what == "a list":
        return b'{"All": []}'
    if what == "cut":
        return gzip.compress(json.dumps(document).encode())[:-20]
    if what == "deep":
        return b"[" * 100_000
    if what == "no trace":
        del document["All"]["1"]["trace"]
    elif what == "a word":
        document["All"]["1"]["trace"]["window_size"] = "long"
    elif what == "a key":
        document["All"]["first"] = document["All"].pop("1")
    return json.dumps(document).encode()


@pytest.mark.parametrize("what", ["no member", "a list", "cut", "deep", "no trace", "a word", "a key"])
def test_files_that_are_none_of_the_authors_are_refused(what: str, tmp_path: Path) -> None:
    path = tmp_path / "x_time_data.json"
    path.write_bytes(broken(what))
    with pytest.raises(InterferenceError, match=re.escape(str(path))):
        quanterference.read_windows([path])


def test_pooled_features_know_no_order_and_no_number_of_servers(windows: Windows) -> None:
    some = windows.take(np.arange(20))
    order = np.random.default_rng(0).permutation(some.present.shape[1])
    turned = replace(
        some,
        present=some.present[:, order],
        is_metadata=some.is_metadata[:, order],
        client=some.client[:, order],
        server=some.server[:, order],
    )
    one, other = window_features.pooled(some), window_features.pooled(turned)
    for name, values in one.items():
        assert np.allclose(values, other[name]), name
    assert all(np.isfinite(values).all() for values in one.values())


def test_relative_features_are_the_same_on_a_machine_of_another_speed(windows: Windows) -> None:
    faster = replace(windows, io_seconds=windows.io_seconds / 7)
    one, other = window_features.relative(windows), window_features.relative(faster)
    for name, values in one.items():
        assert np.allclose(values, other[name]), name
    few = window_features.relative(windows.take(np.arange(window_features.WINDOWS_MIN - 1)))
    assert all(np.isnan(values).all() for values in few.values())


def test_ratios_are_the_same_on_a_machine_of_another_speed_and_in_any_order_of_servers() -> None:
    real = files.read([REAL])
    times = np.array([name.endswith("milliseconds") for name in SERVER for _ in STATISTICS])
    order = np.random.default_rng(0).permutation(real.present.shape[1])
    other = replace(
        real,
        io_seconds=real.io_seconds / 7,
        present=real.present[:, order],
        is_metadata=real.is_metadata[:, order],
        client=real.client[:, order],
        server=np.where(times, real.server / 7, real.server)[:, order],
    )
    turned = window_features.ratios(other)
    for name, values in window_features.ratios(real).items():
        assert np.allclose(values, turned[name], atol=1e-6), name
    few = window_features.ratios(real.take(np.arange(window_features.WINDOWS_MIN - 1)))
    assert np.isnan(few["response_above_quiet"]).all() and np.isfinite(few["response_over_demand"]).all()


def test_ratios_transfer_to_an_unseen_program_on_windows_of_a_real_store() -> None:
    real = files.read([REAL])
    data, classes = prepare(real), classes_of(real, (2.0,))
    makers = estimators((2.0,))
    guessed = {name: np.full(len(real), -1) for name in ("last window", "ratio trees")}
    for training, test in SPLITS["other workloads"](real):
        for name, guesses in guessed.items():
            estimator = makers[name]()
            estimator.fit(data.take(training), classes[training], 2)
            guesses[test] = estimator.probabilities(data.take(test)).argmax(1)
    right = {name: float((guesses == classes).mean()) for name, guesses in guessed.items()}
    assert right["ratio trees"] > 0.95 and right["ratio trees"] > right["last window"], right


def test_splits_keep_their_windows_apart(windows: Windows) -> None:
    for name, parts in SPLITS.items():
        for training, test in parts(windows):
            assert len(training) and len(test) and not set(training) & set(test), name
            if name == "other runs":
                assert not set(windows.runs[training]) & set(windows.runs[test])
            if name == "other workloads":
                assert not set(windows.workloads[training]) & set(windows.workloads[test])
            if name == "later in the run":
                for run in set(windows.runs):
                    last = windows.numbers[training][windows.runs[training] == run].max()
                    assert windows.numbers[test][windows.runs[test] == run].min() > last


def test_each_estimator_beats_the_baselines_where_it_can(windows: Windows) -> None:
    """The windows are a simple model's: trees see the servers, the comparison with quiet windows needs no known job."""
    found = evaluate(windows)
    assert {score.estimator for score in found.scores} == set(ESTIMATORS) == set(estimators((2.0,)))
    scores = {(score.split, score.estimator): score.f1 for score in found.scores}
    for split in SPLITS:
        baseline = max(scores[split, name] for name in BASELINES)
        assert split == "other workloads" or scores[split, "gated"] > baseline, split
    for name in ("trees", "forest", "network"):
        assert scores["random", name] > 0.8, name
    assert scores["other workloads", "above quiet"] > 0.7
    assert scores["other workloads", "gated"] == scores["other workloads", "above quiet"]
    three = evaluate(windows, (2.0, 5.0), ("trees", "majority"))
    assert len(three.shares) == 3 and sum(three.shares) == pytest.approx(1)


def test_the_network_learns_and_refuses_another_number_of_servers(windows: Windows) -> None:
    classes = classes_of(windows, (2.0,))
    network = KernelNetwork(2)
    network.fit(windows, classes)
    guessed = network.probabilities(windows).argmax(1)
    assert (guessed == classes).mean() > 0.9
    fewer = replace(
        windows,
        present=windows.present[:, :2],
        is_metadata=windows.is_metadata[:, :2],
        client=windows.client[:, :2],
        server=windows.server[:, :2],
    )
    with pytest.raises(InterferenceError, match="trained with 4 servers, and there are 2"):
        network.probabilities(fewer)


def test_a_saved_predictor_says_the_same_and_knows_its_limits(windows: Windows, tmp_path: Path) -> None:
    made = trained_without("maker", (2.0, 5.0))
    predictor.save(made, tmp_path / "model.json")
    loaded = predictor.load(tmp_path / "model.json")
    assert loaded == made
    found = predictor.predict(loaded, windows)
    assert found == predictor.predict(made, windows)
    assert len(found) == len(windows) * predictor.HORIZONS
    names = predictor.class_names((2.0, 5.0))
    assert names == ["below 2", "2 to 5", "from 5"]
    truth = [names[place] for place in classes_of(windows, (2.0, 5.0))]
    now = [each for each in found if each.ahead == 0]
    for basis, workloads in (("trees", {"writer", "reader"}), (made.unfamiliar.by, {"maker"})):
        of_basis = [(each, label) for each, label in zip(now, truth, strict=True) if each.by == basis]
        assert {each.workload for each, _ in of_basis} == workloads
        assert np.mean([(each.slowdown == "below 2") == (label == "below 2") for each, label in of_basis]) > 0.8, basis
    assert all(each.driven_by for each in now)
    assert all(sum(each.probabilities) == pytest.approx(1) for each in found)
    few = replace(windows.take(np.arange(5)), workloads=np.full(5, "stranger"))
    assert {each.slowdown for each in predictor.predict(loaded, few)} == {"not known"}


def test_calibrated_probabilities_mean_what_they_say(windows: Windows) -> None:
    made = trained_without("")
    fresh = synthetic.made(2)
    found = [each for each in predictor.predict(made, fresh) if each.ahead == 0]
    slowed = np.array([each.probabilities[1] for each in found])
    truth = classes_of(fresh, (2.0,))
    guess = np.full(len(truth), truth.mean())
    assert np.mean((slowed - truth) ** 2) < 0.5 * np.mean((guess - truth) ** 2)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"no json", "is no predictor of version 3"),
        (b'{"version": 2}', "it is of version 2"),
        (b"{}", "is no predictor"),
        (b'{"version": 3}', "is no predictor"),
        (b"[" * 100_000, "is no predictor"),
    ],
)
def test_a_file_that_is_no_predictor_is_refused(content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_bytes(content)
    with pytest.raises(InterferenceError, match=told):
        predictor.load(tmp_path / "model.json")


def test_a_predictor_whose_trees_were_harmed_is_refused(windows: Windows) -> None:
    made = trained_without("")
    harmed = msgspec.structs.replace(made.horizons[0], trees="tree\nversion=v4\n")
    with pytest.raises(InterferenceError, match="its trees are not for its classes"):
        predictor.predict(msgspec.structs.replace(made, horizons=(harmed,)), windows)


@pytest.mark.parametrize("bins", [(2.0,), (2.0, 5.0)])
def test_native_predictions_are_those_of_lightgbm_and_numpy(windows: Windows, bins: tuple[float, ...]) -> None:
    """Jobs of the training, an unfamiliar one, one with too few windows, and servers that come and go."""
    made = trained_without("maker", bins)
    fresh = synthetic.made(3, ("writer", "reader", "maker", "few"), windows=24)
    fresh = fresh.take((fresh.workloads != "few") | (fresh.numbers < 4))
    gone = np.random.default_rng(4).random(fresh.present.shape) < 0.2
    fewer = replace(
        fresh,
        present=fresh.present & ~gone,
        client=np.where(gone[:, :, None], 0.0, fresh.client),
        server=np.where(gone[:, :, None], 0.0, fresh.server),
    )
    for each in (fresh, fewer, fresh.take(fresh.numbers == 0)):
        slowdown_reference.assert_alike(made, each)


@pytest.mark.parametrize("by", ["ratio trees", "above quiet"])
def test_native_predictions_of_unfamiliar_jobs_are_those_of_the_reference_on_windows_of_a_real_store(by: str) -> None:
    real = files.read([REAL])
    made = trained_on_real_windows()
    left_out = msgspec.structs.replace(made, workloads=made.workloads[:1])
    left_out = msgspec.structs.replace(left_out, unfamiliar=msgspec.structs.replace(made.unfamiliar, by=by))
    slowdown_reference.assert_alike(left_out, real)
    found = {each.by for each in predictor.predict(left_out, real)}
    assert found == {"trees", by}


@cache
def trained_without(workload: str, bins: tuple[float, ...] = (2.0,)) -> predictor.Predictor:
    """A model of the windows of the simple model, but for those of a workload."""
    made = synthetic.made(1)
    return predictor.train(made.take(made.workloads != workload), bins)


@cache
def trained_on_real_windows() -> predictor.Predictor:
    """A model of all windows of a real store."""
    return predictor.train(files.read([REAL]))


def test_unfamiliar_jobs_go_to_the_models_that_are_better_at_programs_left_out(windows: Windows) -> None:
    """Ratios tell nothing where no server counts device time, and the choice has to see that."""
    chosen = trained_on_real_windows().unfamiliar
    assert chosen.by == "ratio trees"
    assert chosen.above_quiet_f1 is not None and chosen.ratio_trees_f1 is not None
    assert chosen.ratio_trees_f1 > chosen.above_quiet_f1
    blind = predictor.train(replace(windows, server=np.zeros_like(windows.server)))
    other = blind.unfamiliar
    assert other.by == "above quiet"
    assert other.above_quiet_f1 is not None and other.ratio_trees_f1 is not None
    assert other.ratio_trees_f1 < other.above_quiet_f1
    assert all(each.ratio_trees is None for each in blind.horizons)
    alone = predictor.train(windows.take(windows.workloads == "writer")).unfamiliar
    assert (alone.by, alone.above_quiet_f1, alone.ratio_trees_f1) == ("above quiet", None, None)


def test_a_model_without_the_trees_that_it_names_is_refused() -> None:
    made = trained_on_real_windows()
    harmed = tuple(msgspec.structs.replace(each, ratio_trees=None) for each in made.horizons)
    with pytest.raises(InterferenceError, match="it has no trees for unfamiliar jobs"):
        predictor.predict(msgspec.structs.replace(made, horizons=harmed), files.read([REAL]))


def test_the_native_network_is_that_of_the_training(windows: Windows) -> None:
    classes = classes_of(windows, (2.0,))
    network = KernelNetwork(2)
    network.fit(windows, classes)
    made = predictor.train(windows, with_network=True)
    found = [each.network for each in predictor.predict(made, windows) if each.ahead == 0]
    np.testing.assert_allclose(np.array(found), network.probabilities(windows), rtol=0, atol=1e-9)


def test_a_model_with_unknown_features_is_refused(windows: Windows) -> None:
    made = trained_without("")
    strange = msgspec.structs.replace(made, pooled=(*made.pooled[1:], "colour"))
    with pytest.raises(InterferenceError, match='the feature "colour"'):
        predictor.predict(strange, windows)


def test_windows_of_one_class_alone_are_refused(windows: Windows) -> None:
    with pytest.raises(InterferenceError, match="are in one class of slowdown"):
        evaluate(windows, (1000.0,))
    with pytest.raises(InterferenceError, match="do not ascend"):
        classes_of(windows, (5.0, 2.0))


def test_a_workload_with_many_windows_weighs_no_more_than_another() -> None:
    workloads, classes = np.array(["a"] * 90 + ["b"] * 10), np.array([0] * 80 + [1] * 10 + [0] * 10)
    weights = even_weights(workloads, classes)
    assert weights.mean() == pytest.approx(1.0)
    assert weights[classes == 0].sum() == pytest.approx(weights[classes == 1].sum())
    assert weights[:80].sum() == pytest.approx(weights[90:].sum()), "the quiet windows of both"


def test_a_training_says_how_many_windows_are_missing(windows: Windows) -> None:
    first = {name: np.flatnonzero(windows.workloads == name) for name in ("writer", "reader", "maker")}
    few = windows.take(np.concatenate([first["writer"][:4], first["reader"][:7]]))
    assert predictor.missing_windows(few) == {"reader": 3, "writer": 6}
    with pytest.raises(InterferenceError, match="reader lacks 3, writer lacks 6") as refused:
        predictor.train(few)
    assert refused.value.hint == "collect 3 more windows of reader at least"
    unlabelled = windows.take(np.arange(20))
    with pytest.raises(InterferenceError, match="no window has a label"):
        predictor.train(replace(unlabelled, slowdowns=np.full(20, np.nan)))
    short = replace(windows.take(np.arange(20)), runs=np.array([str(number // 2) for number in range(20)]))
    with pytest.raises(InterferenceError, match="no run has 3 windows in a row"):
        predictor.train(short)


def test_the_commands_do_it_by_hand(tmp_path: Path) -> None:
    runner = CliRunner()
    folder = tmp_path / "enzo"
    folder.mkdir()
    (folder / "enzo_2_time_data.json").write_text(json.dumps(synthetic.of_the_authors(3)))
    arguments = [
        "interference",
        "import",
        str(folder / "enzo_2_time_data.json"),
        "--to",
        str(tmp_path / "enzo.parquet"),
    ]
    imported = runner.invoke(cli.weir, arguments, catch_exceptions=False)
    assert imported.output.split() == [
        *("WINDOWS", "RUNS", "WORKLOADS", "FILE"),
        *("3", "1", "1", str(tmp_path / "enzo.parquet")),
    ]
    data, model = str(tmp_path / "data.parquet"), str(tmp_path / "model.json")
    files.write(synthetic.made(1), Path(data))
    compared = runner.invoke(
        cli.weir,
        ["interference", "evaluate", data, "--estimator", "trees", "--output", "json"],
        catch_exceptions=False,
    )
    assert {score["split"] for score in json.loads(compared.output)["scores"]} == set(SPLITS)
    trained = runner.invoke(
        cli.weir, ["interference", "train", data, "--to", model, "--output", "json"], catch_exceptions=False
    )
    unfamiliar = json.loads(trained.stdout)["unfamiliar"]
    assert unfamiliar == msgspec.to_builtins(predictor.load(Path(model)).unfamiliar)
    shown = runner.invoke(
        cli.weir, ["interference", "predict", model, data, "--last", "--output", "ndjson"], catch_exceptions=False
    )
    lines = [json.loads(line) for line in shown.output.splitlines()]
    assert [line["ahead"] for line in lines] == [0, 1, 2, 3] * 6


def test_preparing_keeps_labels_out(windows: Windows) -> None:
    """A feature that knew a label would make every split worthless."""
    one, other = prepare(windows), prepare(replace(windows, slowdowns=np.full(len(windows), np.nan)))
    assert np.array_equal(one.pooled, other.pooled) and np.array_equal(one.relative, other.relative, equal_nan=True)
