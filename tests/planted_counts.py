"""Counts of the planted faults that reports name, as JSON: of all runs, and of those whose servers alone are known."""

import json
import sys

from planted_runs import judged, known_to_the_store, mpi_launcher, page_of, page_of_job, planted_runs


def of_runs() -> dict[str, int]:
    """The faults of pages of `weir run --report`: planted, named, confirmed; and findings that are not true."""
    planted = named = confirmed = wrong = begun = 0
    runs = [run for run in planted_runs() if mpi_launcher() is not None or not run.needs_mpi]
    for run in runs:
        page = page_of(run)
        verdict = judged(run, page)
        planted, named = planted + len(run.faults), named + len(verdict.named)
        confirmed, wrong = confirmed + len(verdict.confirmed), wrong + len(verdict.wrong)
        begun += verdict.begins_with_a_fault
        print(
            f"{run.name}: planted {', '.join(each.kind for each in run.faults) or 'nothing'}; confirmed "
            f"{', '.join(each.kind for each in verdict.confirmed) or 'none'}; all: "
            f"{', '.join(finding['rule'] for finding in page['findings']) or 'none'}",
            file=sys.stderr,
        )
    return {
        "report_runs": len(runs),
        "report_runs_begun_with_a_planted_fault": begun,
        "report_findings_planted": planted,
        "report_findings_named": named,
        "report_findings_confirmed": confirmed,
        "report_findings_wrong": wrong,
    }


def of_past_jobs() -> dict[str, int]:
    """The same of pages of past jobs, where only the servers' counts are known: the faults that these can show."""
    planted = confirmed = wrong = 0
    for run in planted_runs():
        faults = [fault for fault in run.faults if fault.store_knows]
        if (not faults and run.faults) or (run.needs_mpi and mpi_launcher() is None):
            continue
        page = page_of_job(run)
        planted, confirmed = planted + len(faults), confirmed + len(known_to_the_store(run, page))
        wrong += len(judged(run, page).wrong)
    return {
        "report_past_findings_planted": planted,
        "report_past_findings_confirmed": confirmed,
        "report_past_findings_wrong": wrong,
    }


if __name__ == "__main__":
    print(json.dumps(of_runs() | of_past_jobs()))
