"""Recipe of Weir for Spack 1.0 and later, in a repository of its own: `spack repo add spack_repo/weir`."""

from spack.package import depends_on, license, variant, version, when  # noqa: A004
from spack_repo.builtin.build_systems.python import PythonPackage


class WeirHpc(PythonPackage):
    """A burst buffer in user space that divides its I/O time among jobs by policy and places files by load."""

    # No release has an address yet.
    manual_download = True
    download_instr = "Name the folder of the sources: `spack develop --path FOLDER weir-hpc@main`."
    url = "file:///weir_hpc-main.tar.gz"

    license("Apache-2.0")

    version("main")

    variant("adaptive", default=False, description="Arrays that analyses read with less accuracy in less time")
    variant("deployment", default=True, description="Stores on several hosts: ClusterShell reads lists of hosts")
    variant("h5py", default=False, description="Adaptive arrays in HDF5 files")
    variant("netcdf", default=False, description="Adaptive arrays restored to netCDF files")
    variant("placement", default=False, description="Placement from Darshan logs, and Lustre's statistics")
    variant("plots", default=False, description="Plots of the demonstration and of benchmarks")
    variant("s3", default=False, description="Adaptive arrays in object stores")
    variant("staging", default=False, description="Copies into the store and out of it, with checksums")
    variant("xarray", default=False, description="Streams of named variables in xarray")
    variant("zarr", default=False, description="Adaptive arrays in Zarr stores")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-setuptools-rust@1.12:", type="build")
    depends_on("py-click-man@0.6:", type="build")
    depends_on("py-click@8.1:", type=("build", "run"))
    depends_on("py-tomli-w@1:", type=("build", "run"))
    depends_on("libfuse@3:", type="run")

    with when("+adaptive"):
        depends_on("py-fsspec@2023.1:", type="run")
        depends_on("py-numpy", type="run")
    with when("+deployment"):
        depends_on("py-clustershell@1.9:", type="run")
    with when("+h5py"):
        depends_on("py-h5py", type="run")
        depends_on("py-numpy", type="run")
    with when("+netcdf"):
        depends_on("py-h5netcdf", type="run")
        depends_on("py-numpy", type="run")
    with when("+placement"):
        depends_on("py-darshan@3.4.4:", type="run")
        depends_on("py-numpy", type="run")
        depends_on("py-pyarrow@14:", type="run")
        depends_on("py-pyzmq@25:", type="run")
        depends_on("py-statsmodels@0.14:", type="run")
    with when("+plots"):
        depends_on("py-matplotlib@3.8:", type="run")
    with when("+s3"):
        depends_on("py-fsspec@2023.1:", type="run")
        depends_on("py-numpy", type="run")
        depends_on("py-s3fs@2023.1:", type="run")
    with when("+staging"):
        depends_on("py-blake3@1:", type="run")
    with when("+xarray"):
        depends_on("py-fsspec@2023.1:", type="run")
        depends_on("py-h5netcdf", type="run")
        depends_on("py-numpy", type="run")
        depends_on("py-xarray@2024.7:", type="run")
    with when("+zarr"):
        depends_on("py-numpy", type="run")
        depends_on("py-zarr@3:", type="run")

    def setup_run_environment(self, env):
        """Let shells and `man` find completion and pages."""
        env.prepend_path("XDG_DATA_DIRS", self.prefix.share)
