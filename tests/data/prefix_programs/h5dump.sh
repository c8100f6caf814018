h5dump --version
