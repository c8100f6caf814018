cat > p.py <<'PROGRAM'
import concurrent.futures, csv, dbm.dumb, json, logging, logging.handlers, os, pathlib, pickle, shelve, shutil, subprocess, sys, tarfile, tempfile, zipfile
with open("c.csv", "w", newline="") as f:
    csv.writer(f).writerows([[i, i * i] for i in range(1000)])
print(sum(int(row[1]) for row in csv.reader(open("c.csv"))))
with dbm.dumb.open("d", "c") as d:
    d[b"k"] = b"v"
print(dbm.dumb.open("d")[b"k"])
handler = logging.handlers.RotatingFileHandler("l.log", maxBytes=200, backupCount=2)
logger = logging.getLogger(); logger.addHandler(handler)
for i in range(40):
    logger.warning("line %d", i)
print(sorted(p.name for p in pathlib.Path(".").glob("l.log*")), open("l.log").read().split()[-1])
with tarfile.open("t.tgz", "w:gz") as t:
    t.add("c.csv")
tarfile.open("t.tgz").extractall("out"); os.remove("t.tgz")
with zipfile.ZipFile("z.zip", "w") as z:
    z.write("c.csv")
print(zipfile.ZipFile("z.zip").testzip()); os.remove("z.zip")
with tempfile.TemporaryDirectory(dir=".") as t, tempfile.NamedTemporaryFile("w+", dir=t) as f:
    f.write("words"); f.flush(); f.seek(0); print(f.read(), len(os.listdir(t)))
def work(n):
    pathlib.Path(f"w{n}").write_text(str(n)); return pathlib.Path(f"w{n}").stat().st_size
if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(3) as pool:
print(list(pool.map(work, range(6))))
    print(subprocess.run([sys.executable, "-c", "import os; print(os.listdir('out'))"], capture_output=True, text=True).stdout)
    with open("both", "w+b") as f:
f.write(b"x" * 5000); f.seek(100); f.write(b"mid"); f.seek(0); print(f.read().count(b"mid")); f.truncate(50)
    print(os.path.getsize("both"), shutil.disk_usage(".").total > 0, oct(os.stat("both").st_mode))
PROGRAM
python3 p.py && python3 -m compileall -q . && ls __pycache__ && rm -r __pycache__
