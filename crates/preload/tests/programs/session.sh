# A session of usual programs in the directory $1; its output must be the same on a plain directory and on the store.
set -eu
cd $1
echo hello > a
cat a
cat < a > b
cat b a >> c
wc -c c
ls -l | wc -l
mkdir d; cd d; pwd | sed "s|$1||"
echo deep > ../e
cat ../e
(cd ..; ls)
seq 1 1000 | sort -R | sort -n | tail -1 > n; cat n
tar cf ../x.tar -C .. a b c; mkdir u; tar xf ../x.tar -C u; ls u; cmp u/a ../a
cp -r u v; diff -r u v && echo equal
find .. -type f | sort | wc -l
grep -r hello .. 2>/dev/null | wc -l
sed -i s/hello/bye/ ../a; cat ../a
python3 - "$1" <<'P'
import os,sys,shutil,json,tempfile,mmap,subprocess,sqlite3,fcntl
os.chdir(sys.argv[1])
with open('py','w') as f: f.write('x'*100000)
with open('py','r+b') as f:
    f.seek(5); f.write(b'ABC'); f.seek(0); print(f.read(10))
    m=mmap.mmap(f.fileno(),0,access=mmap.ACCESS_READ); print(m[5:8], len(m)); m.close()
shutil.copyfile('py','py2'); print(os.stat('py2').st_size)
shutil.copytree('d','dd'); print(sorted(os.listdir('dd')))
with tempfile.TemporaryDirectory(dir='.') as t: open(t+'/x','w').write('1'); print(len(os.listdir(t)))
print(subprocess.check_output(['cat','a']), subprocess.run(['sh','-c','echo out'],stdout=open('so','w')).returncode, open('so').read())
db=sqlite3.connect('db.sqlite'); db.execute('create table t(a)'); db.executemany('insert into t values(?)',[(i,) for i in range(1000)]); db.commit(); print(db.execute('select sum(a) from t').fetchone()); db.close()
db=sqlite3.connect('wal.sqlite'); print(db.execute('pragma journal_mode=delete').fetchone()); db.execute('create table t(a)'); db.commit(); db.close()
os.rename('py','py3'); os.remove('py3'); print(os.path.exists('py3'))
print(os.path.realpath('d/../a').replace(sys.argv[1],''))
for r,d,f in sorted(os.walk('d')): print(r,sorted(d),sorted(f))
P
printf '#!/bin/sh\necho script $1\n' > s.sh; chmod +x s.sh; ./s.sh arg
cp /bin/echo ./ec; ./ec binary
dd if=/dev/zero of=z bs=64k count=10 2>/dev/null; stat -c %s z
truncate -s 100 z; stat -c %s z
ln -s ../a l; readlink l; cat l
mv ../a ../a2; ls ../a ../a2 2>/dev/null || true
rm -rf ../d/u ../dd
ls
if command -v rsync > /dev/null; then rsync -a ../d/v/ copy; (cd copy; rsync -a ../v .; rsync -a v/ "$1/w/"); diff -r v ../w; ls copy ../w; fi
tar xpf ../x.tar -C v; (umask 077; mkdir t; tar xf ../x.tar -C t); stat -c '%a %n' t/*
printf "x\nx\ny\n" > twice; uniq -c twice; uniq < twice
