"""From the identity of a job to its deployment."""
