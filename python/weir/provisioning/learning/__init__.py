"""Classes of a site's own jobs, learned from their logs (LuxIO, section III-B, methodology of I/O behaviour classes).

Modules in their order: `runs` and `summaries` read, `archive` keeps, `parsing` fills the archive, `features` and
`dataset` describe, `models` and `intervals` predict, `evaluation`, `tuning` and `clustering` are the steps of a build,
`report` is its document, and `building` goes through all of them.
"""
