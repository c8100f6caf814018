"""Statistics of a Lustre file system: read on its servers, published, gathered, seen as targets to place files on."""
