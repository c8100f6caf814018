# Programs, scripts and libraries that lie in the directory $1 are executed, spawned and loaded, also through links that leave
# the directory. The output, with the directory's name replaced, must be the same on a plain directory and on the store.
set -u
cd "$1" && directory=$PWD
mkdir bin lib
cp /bin/echo bin/copy
ln -s /bin/echo bin/link
printf '#!/bin/sh\necho script $0 $1\n' > bin/script
printf '#!%s/bin/script word\n' "$directory" > bin/interpreted
printf '#!/usr/bin/python3 -S\nimport sys\nprint(sys.argv, sys.path[0])\n' > bin/python
chmod +x bin/*
printf 'int below(void) { return 20; }\n' > below.c
printf 'int below(void);\nstatic int count;\nint above(void) { return below() + ++count; }\n' > above.c
gcc -shared -fPIC -Wl,-soname,libbelow.so -o lib/libbelow.so below.c
gcc -shared -fPIC -o bin/libabove.so above.c -Llib -lbelow -Wl,-rpath,'$ORIGIN/../lib'
cat > calls.py <<'PROGRAM'
import ctypes, os, subprocess, sys
directory = os.getcwd()

def ended(child):
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

for name in ("copy", "link", "script", "interpreted", "python"):
    print(name, flush=True)
    ended(os.posix_spawn(f"{directory}/bin/{name}", [name, "one", "two"], os.environ))
    ended(os.posix_spawn(f"bin/{name}", [name, "relative"], os.environ))
    os.environ["PATH"] = f"{directory}/bin:" + os.environ["PATH"]
    ended(os.posix_spawnp(name, [name, "found"], os.environ))
    for words in ([f"{directory}/bin/{name}", "child"], [name, "found"]):
        for closes in (False, True):
            print(subprocess.run(words, capture_output=True, text=True, close_fds=closes, check=True).stdout, flush=True)
    if (child := os.fork()) == 0:
        os.execvp(name, [name, "executed"])
    ended(child)
for bad in ("missing", ".", "libabove.so"):
    try:
        os.posix_spawn(f"{directory}/bin/{bad}", ["x"], os.environ)
    except OSError as error:
        print(bad, error.strerror)
one = ctypes.CDLL(f"{directory}/bin/libabove.so")
two = ctypes.CDLL("./bin/libabove.so")
print(one.above(), two.above(), one.above(), "one library, opened twice")
try:
    ctypes.CDLL(f"{directory}/bin/missing.so")
except OSError as error:
    print(error)
PROGRAM
chmod -x bin/libabove.so
python3 -S calls.py | sed "s#$directory#DIR#g"
printf 'all:\n\t@./bin/copy made\n\t@bin/script\n' > Makefile
make -s | sed "s#$directory#DIR#g"
