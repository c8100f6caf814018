python3 - <<'PROGRAM'
import importlib.util, os, shutil
for name in ("numpy", "numpy.libs"):
    found = importlib.util.find_spec("numpy").submodule_search_locations[0]
    source = os.path.join(os.path.dirname(found), name)
    if os.path.isdir(source):
shutil.copytree(source, os.path.join("t", name), ignore=shutil.ignore_patterns("tests", "__pycache__"))
PROGRAM
cat > use.py <<'PROGRAM'
import numpy as np
print(np.__file__)
a = np.arange(12.0).reshape(3, 4)
np.save("a.npy", a); np.savez("z.npz", a=a); np.savetxt("a.txt", a)
print(np.load("a.npy", mmap_mode="r").sum(), np.load("z.npz")["a"].sum(), np.loadtxt("a.txt").sum())
print(np.linalg.inv(np.eye(3) * 2).sum(), np.fft.fft(np.ones(4))[0])
a.tofile("raw"); print(np.fromfile("raw").sum(), np.memmap("raw", mode="c", dtype="f8").sum())
PROGRAM
PYTHONPATH=t python3 -B use.py && rm -r t z.npz
