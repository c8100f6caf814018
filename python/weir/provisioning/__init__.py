"""From a job and its past run to the storage that the job needs."""
