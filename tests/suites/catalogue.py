"""The suites, by name."""

from suites.fsx import Fsx
from suites.ior import Ior
from suites.lmdb import Lmdb
from suites.ltp import Ltp
from suites.pjdfstest import Pjdfstest, PjdfstestScripts
from suites.postgres import Postgres
from suites.rocksdb import RocksDb
from suites.stress_ng import StressNg
from suites.suite import Suite
from suites.xfstests import Xfstests

SUITES: tuple[Suite, ...] = (
    Pjdfstest(),
    PjdfstestScripts(),
    Fsx(),
    StressNg(),
    Lmdb(),
    RocksDb(),
    Postgres(),
    Ior(),
    Xfstests(),
    Ltp(),
)
"""From the quickest to the longest."""
