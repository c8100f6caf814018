"""The I/O behaviour of a job: traits of a past run, the identity that follows, and the nearest class."""
