"""Statistics of a Lustre file system: read on its servers, published, collected, and seen as targets for files."""
