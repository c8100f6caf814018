cat > h.py <<'PROGRAM'
import numpy as np
try:
    import h5py
except ImportError:
    raise SystemExit("no h5py")
with h5py.File("h.h5", "w") as f:
    f.create_dataset("d", data=np.arange(100000.0), chunks=(1000,), compression="gzip")
    f["d"].attrs["unit"] = "K"
with h5py.File("h.h5", "r+") as f:
    f["d"][10:20] = -1
    f.create_group("g")["x"] = np.arange(5)
with h5py.File("h.h5", "r") as f:
    print(f["d"][:].sum(), f["d"].attrs["unit"], list(f["g/x"]))
PROGRAM
python3 h.py
