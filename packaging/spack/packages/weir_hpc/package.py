"""Recipe of Weir for Spack, in a repository of its own: `spack repo add packaging/spack`."""

from spack.package import PythonPackage, depends_on, license, variant, version, when  # noqa: A004


class WeirHpc(PythonPackage):
    """A burst buffer in user space that divides its I/O time among jobs by policy and places files by load."""

    # No release has an address yet: `spack develop --path FOLDER weir-hpc@main` names the sources.
    license("Apache-2.0")

    version("main")

    variant("deployment", default=True, description="Stores on several hosts: ClusterShell reads lists of hosts")
    variant("placement", default=False, description="Placement from Darshan logs, and Lustre's statistics")
    variant("simulation", default=False, description="The simulator's reports, sweeps and tuning")

    depends_on("rust@1.88:", type="build")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-setuptools-rust@1.12:", type="build")
    depends_on("py-wheel", type="build")
    depends_on("py-click-man@0.6:", type="build")
    depends_on("py-click@8.1:", type=("build", "run"))
    depends_on("py-tomli-w@1:", type=("build", "run"))
    depends_on("libfuse@3:", type="run")

    depends_on("py-clustershell@1.9:", type="run", when="+deployment")
    with when("+placement"):
        depends_on("py-numpy", type="run")
        depends_on("py-pyarrow@14:", type="run")
        depends_on("py-pyzmq@25:", type="run")
        depends_on("py-statsmodels@0.14:", type="run")
    with when("+simulation"):
        depends_on("py-cryptography", type="run")
        depends_on("py-distributed@2024.8:", type="run")
        depends_on("py-dask-jobqueue@0.9:", type="run")
        depends_on("py-jinja2@3.1:", type="run")
        depends_on("py-matplotlib@3.8:", type="run")
        depends_on("py-numpy", type="run")
        depends_on("py-scipy", type="run")

    def setup_run_environment(self, env):
        """Let shells and `man` find completion and pages."""
        env.prepend_path("XDG_DATA_DIRS", self.prefix.share)
