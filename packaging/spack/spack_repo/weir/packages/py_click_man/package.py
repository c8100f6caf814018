"""Recipe of click-man, which Spack's own packages lack: it makes the pages of the manual."""

from spack.package import depends_on, license, version  # noqa: A004
from spack_repo.builtin.build_systems.python import PythonPackage


class PyClickMan(PythonPackage):
    """Pages of the manual from the commands of click."""

    homepage = "https://github.com/click-contrib/click-man"
    pypi = "click-man/click_man-0.6.0.tar.gz"

    license("MIT")

    version("0.6.0", sha256="53b08a1f54f2ea291fc081d120f40107b9b6134ca578e027983c1e0ef21bf19a")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@61:", type="build")
    depends_on("py-setuptools-scm@8:", type="build")
    depends_on("py-click@8:", type=("build", "run"))
