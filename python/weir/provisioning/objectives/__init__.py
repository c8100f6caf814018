"""Service-level objectives of storage: their documents, and the tables that come with Weir."""
