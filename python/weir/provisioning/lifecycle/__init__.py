"""The life of one job's storage, step by step: each step is a function over a folder, and may be called again.

The order is `validation.validate`, `record.JobFolder.create`, `setup.setup`, `movement.stage_in`,
`environment.environment` (the job runs), `movement.stage_out`, `teardown.teardown`. `suspension.suspend` stops
everything early and keeps the results. A step that was done does nothing, and a step that was cut off goes on, so a
caller that was killed calls its step again.
"""
