"""Configuration of storage systems from deployment schemas, and readers of the same texts.

Each module has a document type, and three functions: `of` (deployment -> document), `files` (document -> texts) and
`read` (texts -> document). `read` gives the document back that `files` was given: the tests try it on all kinds of
deployments.
"""
