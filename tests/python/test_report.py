"""`weir report`: each rule at both sides of its threshold, real Darshan logs, traces, and the page."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import pytest
from resident import python_path
from trace_files import accessed, ended, job, opened, pattern, placed, process, trace, window, written
from weir.cli import weir
from weir.report import logged, page, rules, traced, windowed, words
from weir.report.errors import ReportError
from weir.report.facts import (
    Accesses,
    Facts,
    File,
    Phase,
    Predicted,
    Promise,
    SlowTarget,
    Target,
    Transfers,
    Wait,
)
from weir.report.findings import Finding, Rule
from weir.report.phases import PHASES_MAX, Bucket, phases_of

LOGS = Path(__file__).parents[1] / "data" / "darshan"
MIB = 1 << 20
BARE = Facts(source="a test", job="job", user="ada", program="model", begin=1_800_000_000.0, seconds=100.0)
PROMISE = Promise("fifo", None, 0.5, device_seconds=4.0, waited_seconds=2.0, lost_seconds=2.0)


def many(operations: int, size: int, **others: Any) -> Transfers:
    return Transfers(operations, operations * size, seconds=10.0, **others)


def targets(*moved: int, seconds: tuple[float, ...] | None = None) -> tuple[Target, ...]:
    times = seconds or tuple(each / MIB / 100 for each in moved)
    return tuple(
        Target(f"0.{number}", operations=10, written_bytes=count, seconds=time)
        for number, (count, time) in enumerate(zip(moved, times, strict=True))
    )


STORED = replace(BARE, is_store=True, active_seconds=10.0)
CASES: dict[str, tuple[Facts, Facts]] = {
    "neighbour": (
        replace(BARE, promise=PROMISE, waits=(Wait(1.0, 2.0, "flood", "bob"),)),
        replace(BARE, promise=replace(PROMISE, waited_seconds=0.8)),
    ),
    "share": (
        replace(BARE, promise=replace(PROMISE, share_owed=0.6, device_seconds=9.0)),
        replace(BARE, promise=replace(PROMISE, share_owed=0.55, device_seconds=9.0)),
    ),
    "slow-target": (
        replace(STORED, targets=targets(*[64 * MIB] * 4, seconds=(3.0, 1.0, 1.0, 1.0))),
        replace(STORED, targets=targets(*[64 * MIB] * 4, seconds=(1.9, 1.0, 1.0, 1.0))),
    ),
    "one-target": (
        replace(STORED, targets=targets(400 * MIB, 0, 0, 0), files=(File("/weir/a/b", targets=("0.0",)),)),
        replace(STORED, targets=targets(190 * MIB, 70 * MIB, 70 * MIB, 70 * MIB)),
    ),
    "small-writes": (
        replace(BARE, accesses=Accesses(writes=many(2000, 100, sized=2000, small=1000))),
        replace(BARE, accesses=Accesses(writes=many(2000, 100, sized=2000, small=999))),
    ),
    "small-reads": (
        replace(BARE, accesses=Accesses(reads=many(10_000, 100, sized=10_000, small=1000))),
        replace(BARE, accesses=Accesses(reads=many(10_001, 100, sized=10_001, small=1000))),
    ),
    "random-reads": (
        replace(BARE, accesses=Accesses(reads=many(5000, MIB, placed=5000, astray=1000))),
        replace(BARE, accesses=Accesses(reads=many(5001, MIB, placed=5001, astray=1000))),
    ),
    "random-writes": (
        replace(BARE, accesses=Accesses(writes=many(2000, MIB, placed=2000, astray=1000))),
        replace(BARE, accesses=Accesses(writes=many(2000, MIB, placed=2000, astray=999))),
    ),
    "backward-reads": (
        replace(BARE, accesses=Accesses(reads=many(110, MIB, placed=110, astray=100))),
        replace(BARE, accesses=Accesses(reads=many(112, MIB, placed=112, astray=100))),
    ),
    "unaligned": (
        replace(BARE, accesses=Accesses(writes=many(100, 4096), alignable=100, unaligned=10)),
        replace(BARE, accesses=Accesses(writes=many(100, 4095), alignable=100, unaligned=100)),
    ),
    "metadata": (
        replace(BARE, processes=2, accesses=Accesses(metadata=10, metadata_seconds=60.0)),
        replace(BARE, processes=2, accesses=Accesses(metadata=999, metadata_seconds=59.0)),
    ),
    "syncs": (
        replace(BARE, accesses=Accesses(writes=many(200, MIB), syncs=100)),
        replace(BARE, accesses=Accesses(writes=many(201, MIB), syncs=100)),
    ),
    "one-at-a-time": (
        replace(STORED, under_way=1.0, targets=targets(MIB, MIB, seconds=(4.9, 0.0))),
        replace(STORED, under_way=1.0, targets=targets(MIB, MIB, seconds=(5.0, 0.0))),
    ),
    "stragglers": (
        replace(BARE, files=(File("/a", processes=4, slowest_seconds=10.0, mean_seconds=8.5),)),
        replace(BARE, files=(File("/a", processes=4, slowest_seconds=10.0, mean_seconds=8.6),)),
    ),
    "independent": (
        replace(BARE, processes=4, accesses=Accesses(independent=1100, collective=1099)),
        replace(BARE, processes=4, accesses=Accesses(independent=1100, collective=1100)),
    ),
    "streams": (
        replace(BARE, accesses=Accesses(reads=many(10, 100), streamed_bytes=100)),
        replace(BARE, accesses=Accesses(reads=many(10, 100), streamed_bytes=99)),
    ),
    "reread": (
        replace(BARE, files=(File("/a", size_bytes=4 * MIB, read_bytes=8 * MIB),)),
        replace(BARE, files=(File("/a", size_bytes=4 * MIB, read_bytes=8 * MIB - 1),)),
    ),
    "read-back": (
        replace(BARE, files=(File("/a", size_bytes=8 * MIB, written_bytes=8 * MIB, read_bytes=4 * MIB),)),
        replace(BARE, files=(File("/a", size_bytes=8 * MIB, written_bytes=8 * MIB, read_bytes=4 * MIB - 1),)),
    ),
    "reopened": (
        replace(BARE, files=(File("/a", opens=200, operations=400, processes=2),)),
        replace(BARE, files=(File("/a", opens=200, operations=401, processes=2),)),
    ),
    "many-files": (
        replace(BARE, files=tuple(File(f"/{number}", MIB - 1, written_bytes=1) for number in range(1000))),
        replace(BARE, files=tuple(File(f"/{number}", MIB, written_bytes=1) for number in range(1000))),
    ),
    "one-rank": (
        replace(BARE, processes=4, busiest_part=0.9, accesses=Accesses(writes=many(16, MIB))),
        replace(BARE, processes=4, busiest_part=0.9, accesses=Accesses(writes=many(15, MIB))),
    ),
    "full-target": (
        replace(BARE, targets=(Target("0.0", fill=0.95),)),
        replace(BARE, targets=(Target("0.0", fill=0.949),)),
    ),
    "failed-target": (
        replace(BARE, targets=(Target("0.0", is_failed=True),)),
        replace(BARE, targets=(Target("0.0"),)),
    ),
    "predicted": (
        replace(BARE, predicted=Predicted(100, 10, 5.0, "trees", "flood of bob")),
        replace(BARE, predicted=Predicted(100, 9, 5.0, "trees", "flood of bob")),
    ),
}  # fmt: skip
"""Facts that trigger each rule, and facts that nearly do."""


def found_in(facts: Facts) -> dict[str, Finding]:
    return {finding.rule: finding for finding in rules.findings_of(facts)}


def test_each_rule_has_a_case_and_bare_facts_have_no_finding() -> None:
    assert list(CASES) == [rule.name for rule in rules.RULES]
    assert not rules.findings_of(BARE)


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.name)
def test_a_rule_begins_at_its_threshold(rule: Rule) -> None:
    beyond, within = CASES[rule.name]
    finding = found_in(beyond)[rule.name]
    assert finding.title == rule.title and finding.words.endswith(".") and finding.remedy and finding.because
    assert rule.name not in found_in(within)


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.name)
def test_a_command_of_weir_that_is_named_is_one(rule: Rule) -> None:
    command = found_in(CASES[rule.name][0])[rule.name].command
    name, *arguments = shlex.split(command, comments=True)
    if name != "weir":
        return
    context = click.Context(weir, info_name="weir")
    found: click.Command = weir
    while isinstance(found, click.Group) and arguments and not arguments[0].startswith("-"):
        known = found.get_command(context, arguments[0])
        if known is None:
            break
        found, arguments = known, arguments[1:]
    assert found is not weir
    found.make_context(command, list(arguments), resilient_parsing=True)


def test_a_shared_file_on_one_target_is_told_where_the_target_is_not_busy() -> None:
    shared = File("/weir/a/b", 64 * MIB, written_bytes=64 * MIB, processes=4, targets=("0.1",))
    idle = replace(STORED, targets=targets(0, 64 * MIB, 0, 0), files=(shared,))
    finding = found_in(idle)["one-target"]
    assert (finding.number, finding.unit, finding.confidence) == (1.0, "of 4 targets", "low")
    assert "one-target" not in found_in(replace(idle, files=(replace(shared, processes=1),)))
    assert "one-target" not in found_in(replace(idle, files=(replace(shared, targets=("0.1", "0.2")),)))


def test_a_few_hundred_small_files_count_where_most_requests_move_no_bytes() -> None:
    files = tuple(File(f"/{number}", 2048, written_bytes=2048) for number in range(100))
    busy = replace(BARE, files=files, accesses=Accesses(writes=many(100, 2048), metadata=101))
    assert found_in(busy)["many-files"].number == 100
    assert "many-files" not in found_in(replace(busy, accesses=Accesses(writes=many(100, 2048), metadata=100)))
    assert "many-files" not in found_in(replace(busy, files=files[1:]))


def test_reads_in_random_order_are_not_called_backward_and_all_of_them_count() -> None:
    reads = many(5000, MIB, placed=5000, astray=2500, apart=4990)
    found = found_in(replace(BARE, accesses=Accesses(reads=reads)))
    assert found["random-reads"].number == pytest.approx(0.998)
    assert "backward-reads" not in found
    back = found_in(replace(BARE, accesses=Accesses(reads=replace(reads, astray=4990))))
    assert "backward-reads" in back and "random-reads" not in back


def test_a_job_that_is_hardly_in_requests_does_not_wait_for_each() -> None:
    assert "one-at-a-time" not in found_in(replace(CASES["one-at-a-time"][0], under_way=0.4))


def test_the_most_valuable_finding_comes_first() -> None:
    both = replace(
        BARE, promise=replace(PROMISE, lost_seconds=50.0), waits=(Wait(1.0, 2.0, "flood", "bob"),),
        accesses=CASES["small-writes"][0].accesses,
    )  # fmt: skip
    assert [finding.rule for finding in rules.findings_of(both)] == ["neighbour", "small-writes"]
    cheap = replace(both, promise=replace(PROMISE, lost_seconds=0.1))
    assert [finding.rule for finding in rules.findings_of(cheap)] == ["small-writes", "neighbour"]


def test_the_remedy_of_a_neighbour_depends_on_the_policy() -> None:
    facts = CASES["neighbour"][0]
    assert found_in(facts)["neighbour"].command == "weir policy set size-fair"
    fair = replace(facts, promise=replace(PROMISE, policy="size-fair"))
    assert found_in(fair)["neighbour"].command.startswith("weir guard")
    assert found_in(facts)["neighbour"].where == ("flood of bob (2.0 s)",)


def test_a_target_that_a_log_shows_to_be_slow_counts() -> None:
    slow = SlowTarget("OST 14", 28e6, 1.6e9, 700.0)
    finding = found_in(replace(BARE, slow_targets=(slow,)))["slow-target"]
    assert finding.seconds == 700.0 and finding.where == ("OST 14",)


LOGGED = {
    "sample-badost.darshan": {"slow-target"},
    "sample-goodost.darshan": set[str](),
    "jobs/dbin_ior_id66184525-37486_1-22-67323-16349198698853775843_1.darshan": {"small-writes", "syncs", "one-target"},
    "jobs/dbin_ior_id66186284-26845_1-22-78692-9868598872249172998_1.darshan": {"small-reads", "one-target"},
    "noposix.darshan": set[str](),
}
"""Faults of real logs, by what their sources say of them; others may be found, too."""


@pytest.mark.parametrize("name", LOGGED)
def test_faults_of_real_logs_are_found(name: str) -> None:
    facts = logged.facts_of(LOGS / name)
    found = set(found_in(facts))
    assert LOGGED[name] <= found
    if name == "sample-goodost.darshan":
        assert "slow-target" not in found
    assert sum(phase.bytes for phase in facts.phases) == pytest.approx(facts.read_bytes + facts.written_bytes, rel=0.02)


def test_the_slow_target_of_a_log_is_named_with_its_rates() -> None:
    finding = found_in(logged.facts_of(LOGS / "sample-badost.darshan"))["slow-target"]
    assert finding.where == ("OST 14",) and finding.number < 0.05 and finding.seconds is not None
    assert 700 < finding.seconds < 780


def test_traced_accesses_of_a_log_lie_where_they_were() -> None:
    facts = logged.facts_of(LOGS / "sample-dxt-simple.darshan")
    assert facts.phases and not any("DXT" in sentence for sentence in facts.unknown)
    assert all(0 <= phase.begin < phase.end <= facts.seconds * 1.001 for phase in facts.phases)


def traced_run(tmp_path: Path) -> traced.Traced:
    (tmp_path / "run+node+1-0.weirtrace").write_bytes(
        trace(
            process(first=True),
            opened(0, "/weir/a") + placed(0, "-c 2 -S 1M -o 0.0,0.1") + written(0, 9 * MIB, 9 * MIB),
            accessed("/weir/a", "-c 2 -S 1M -o 0.0,0.1", pattern((6, 0, 0, 2, 1), 3 * MIB, ahead=4),
                     pattern((0, 0, 4, 0, 0), 4 * MIB, unaligned=3, ahead=4)),
            accessed("/weir/a", "", pattern((0, 0, 0, 0, 1), 8 * MIB, ahead=1), pattern()),
            job() + window(1_800_000_001, (0, 0), writes=4, size=MIB),
            ended(2),
            version=3,
        )
    )  # fmt: skip
    return traced.read([tmp_path], note=pytest.fail)


def test_accesses_of_a_trace_add_up_by_file(tmp_path: Path) -> None:
    run = traced_run(tmp_path)
    (file,) = run.files
    assert (file.path, file.size_bytes, file.operations, file.small) == ("/weir/a", 9 * MIB, 14, 10)
    assert (file.astray, file.unaligned, file.targets) == (5, 3, ("0.0", "0.1"))
    assert (file.read_bytes, file.written_bytes) == (11 * MIB, 4 * MIB)
    reads, writes = run.accesses.reads, run.accesses.writes
    assert (reads.operations, reads.astray, writes.operations, writes.small) == (10, 5, 4, 4)


def test_a_trace_alone_gives_a_report(tmp_path: Path) -> None:
    facts = traced.facts_of(traced_run(tmp_path), "a trace")
    assert facts.job == "job" and facts.accesses.is_exact and facts.accesses.unaligned == 3
    (phase,) = facts.phases
    assert (phase.kind, phase.written_bytes) == ("write", 4 * MIB)
    assert [target.name for target in facts.targets] == ["0.0"]


def test_windows_give_a_report_and_name_their_runs() -> None:
    data = Path(__file__).parents[1] / "data" / "interference" / "windows.parquet"
    pytest.importorskip("pyarrow")
    with pytest.raises(ReportError, match="runs") as told:
        windowed.facts_of([data], None, 1.0)
    name = str(told.value.hint).rpartition(" ")[2]
    facts = windowed.facts_of([data], name, 1.0)
    assert facts.job == name and facts.phases and facts.targets
    with pytest.raises(ReportError, match="no run"):
        windowed.facts_of([data], "nobody", 1.0)


def test_phases_end_at_pauses_and_changes() -> None:
    buckets = [
        Bucket(0.0, 1.0, written_bytes=10, operations=1), Bucket(1.0, 1.0, written_bytes=30, operations=1),
        Bucket(2.0, 1.0, read_bytes=50, operations=2), Bucket(9.0, 1.0, read_bytes=50, operations=1),
        Bucket(10.0, 1.0, metadata=7), Bucket(11.0, 1.0),
    ]  # fmt: skip
    found = phases_of(buckets, lambda phase: (None, 100.0))
    assert [(each.kind, each.begin, each.end, each.bytes) for each in found] == [
        ("write", 0.0, 2.0, 40), ("read", 2.0, 3.0, 50), ("read", 9.0, 10.0, 50), ("metadata", 10.0, 11.0, 0),
    ]  # fmt: skip
    assert found[0].achieved == 20.0 and found[0].possible == 100.0


def test_many_phases_become_few_and_lose_no_byte() -> None:
    buckets = [Bucket(5.0 * turn, 1.0, written_bytes=turn, operations=1) for turn in range(1, 2000)]
    found = phases_of(buckets)
    assert len(found) == PHASES_MAX
    assert sum(each.bytes for each in found) == sum(range(1, 2000))


class _Page(HTMLParser):
    """The elements of a page, and what it takes from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.foreign: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not str(value).startswith(("#", "data:")):
                self.foreign.append(f"{tag} {value}")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read_page(text: str) -> _Page:
    found = _Page()
    found.feed(text)
    return found


def rich() -> Facts:
    """Facts with something for every section."""
    return replace(
        STORED,
        job="<script>alert(1)</script>",
        promise=replace(PROMISE, share_owed=0.6),
        phases=(Phase(0.0, 5.0, "write", 0, 400 * MIB, 400, 2.0, 80.0 * MIB, 100.0 * MIB, 200.0 * MIB),),
        waits=(Wait(1.0, 1.5, "flood", "bob"), Wait(2.0, 0.5, "$x_1$", "eve")),
        targets=targets(400 * MIB, 0, 0, 0),
        files=(File("/weir/\x1b[2J", targets=("0.0",), written_bytes=400 * MIB),),
        accesses=CASES["small-writes"][0].accesses,
    )


def test_a_page_needs_nothing_from_elsewhere_and_runs_no_script() -> None:
    pytest.importorskip("matplotlib")
    facts = rich()
    found = read_page(page.page(facts, rules.findings_of(facts)))
    assert not found.foreign and "script" not in found.elements
    assert found.elements.count("figure") == 3 and "polygon" not in found.text
    text = " ".join(found.text)
    assert "<script>alert(1)</script>" in text, "a name is text"
    assert "\x1b" not in text and r"\x1b[2J" in text
    for finding in rules.findings_of(facts):
        assert finding.command in text and finding.words in text


def test_a_page_holds_in_print_and_tells_series_apart_without_colour() -> None:
    pytest.importorskip("matplotlib")
    facts = rich()
    text = page.page(facts, rules.findings_of(facts))
    assert "@media print" in text and "details" not in read_page(text).elements, "a closed part is not printed"
    assert "fill: url(#" in text, "bars have hatches"


def test_a_page_without_matplotlib_has_tables_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_has_figures", lambda: False)
    facts = rich()
    found = read_page(page.page(facts, rules.findings_of(facts)))
    assert "figure" not in found.elements and found.elements.count("table") >= 5
    assert "matplotlib" in " ".join(found.text)


def test_a_page_without_jinja_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ReportError, match="jinja2") as told:
        page.page(BARE, [])
    assert "jinja2" in str(told.value.hint)


def test_the_text_is_short_and_names_the_commands() -> None:
    facts = rich()
    findings = rules.findings_of(facts)
    lines = list(words.lines_of(facts, findings))
    assert len(lines) < 40
    assert all(any(finding.command in line for line in lines) for finding in findings[:3])
    assert list(words.lines_of(BARE, []))[-1] == "No rule found a fault."


def answer(*arguments: object, code: int = 0, home: Path) -> "subprocess.CompletedProcess[str]":
    found = subprocess.run(
        [sys.executable, "-m", "weir.cli", "--home", str(home), "report", *map(str, arguments)],
        capture_output=True, text=True, timeout=300, check=False, env={"PYTHONPATH": python_path(), "HOME": str(home)},
    )  # fmt: skip
    assert found.returncode == code, found.stderr
    return found


def test_the_command_writes_json_text_and_a_page(tmp_path: Path) -> None:
    log = LOGS / "sample-badost.darshan"
    html = tmp_path / "page.html"
    document = json.loads(answer("--darshan", log, "--html", html, "--output", "json", home=tmp_path).stdout)
    assert document["findings"][0]["rule"] == "slow-target"
    assert document["findings"][0]["where"] == ["OST 14"]
    assert read_page(html.read_text()).elements.count("li") > 3


@pytest.mark.parametrize(
    ("arguments", "words_of_error"),
    [
        ((), "name a JOB"),
        (("--darshan", "LOG", "--trace", "."), "do not go together"),
        (("job", "--darshan", "LOG"), "does not go with --darshan"),
        (("--darshan", "LOG", "--since", "1h"), "for a JOB of the store"),
        (("job", "--until", "1h"), "--until needs --since"),
    ],
)
def test_questions_without_an_answer_are_refused(
    arguments: tuple[str, ...], words_of_error: str, tmp_path: Path
) -> None:
    given = [str(LOGS / "noposix.darshan") if each == "LOG" else each for each in arguments]
    assert words_of_error in answer(*given, code=2, home=tmp_path).stderr


def test_a_store_without_a_history_is_told(tmp_path: Path) -> None:
    told = answer("job", code=1, home=tmp_path).stderr
    assert "there is no history" in told and "weir record" in told
