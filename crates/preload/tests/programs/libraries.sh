# Programs and libraries in the directory $1 need libraries there, by every way in which the dynamic linker finds libraries. The
# output, with the directory's name replaced, must be the same on a plain directory and on the store. $2 is a folder of the host.
set -u
cd "$1" && directory=$PWD host=$2
mkdir bin lib more names
ln -s . lib/link
build() { gcc -shared -fPIC -Wno-implicit-function-declaration -o "$@" || echo "not built: $1"; }
shown() { sed "s#$directory#DIR#g; s#$host#HOST#g"; }

# `lower` has no SONAME. `middle` has one. `upper` and `round` need each other.
echo 'int lower(void) { return 20; }' > lower.c
echo 'int lower(void); static int count; int middle(void) { return lower() + ++count; }' > middle.c
echo 'int middle(void); int round_(void); int base(void) { return 100; } int upper(void) { return middle() + round_(); }' > upper.c
echo 'int base(void); int round_(void) { return base() + 1; }' > round.c
echo 'int upper(void); int printf(const char *, ...); int main(void) { return !printf("upper %d\n", upper()); }' > main.c
echo 'int middle(void); int printf(const char *, ...); int main(void) { return !printf("middle %d\n", middle()); }' > short.c
build lib/liblower.so lower.c
build lib/libmiddle.so middle.c -Wl,-soname,libmiddle.so -Llib -llower -Wl,-rpath,'$ORIGIN'
build lib/libround.so round.c
build lib/libupper.so upper.c -Llib -lmiddle -lround -Wl,-rpath,'${ORIGIN}/link'
build lib/libround.so round.c -Llib -lupper -Wl,-rpath,'$ORIGIN'
gcc -o bin/origin main.c -Llib -lupper -Wl,-rpath-link,lib -Wl,-rpath,'$ORIGIN/../lib'
gcc -o bin/fixed main.c -Llib -lupper -Wl,-rpath-link,lib -Wl,-rpath,"$directory/lib"
# The old tag also serves the libraries that the needed ones need: `bare` says nothing itself.
build lib/libbare.so middle.c -Llib -llower
gcc -o bin/old short.c -Llib -lbare -Wl,-rpath-link,lib -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib'
gcc -o bin/plain main.c -Llib -lupper -Wl,-rpath-link,lib
# Without a SONAME, the path of the linker's command is the name that is needed.
build more/libnested.so middle.c lib/liblower.so
gcc -o bin/nested short.c more/libnested.so -Wl,--allow-shlib-undefined
cp bin/plain "$host/plain"; cp bin/fixed "$host/fixed"
# The SONAME is another name than the one that is needed.
build names/real.so lower.c -Wl,-soname,libother.so
printf 'int lower(void); int printf(const char *, ...); int main(void) { return !printf("lower %%d\\n", lower()); }\n' > names.c
build names/libsaid.so lower.c
gcc -o bin/names names.c -Lnames -lsaid -Wl,-rpath,"$directory/names"
ln -sf real.so names/libsaid.so

for program in origin fixed old nested names; do
    echo "$program"
    "bin/$program"; "$directory/bin/$program"; (cd bin && "./$program")
    python3 -S -c "
import os, subprocess, sys
print(subprocess.run(['$directory/bin/$program'], capture_output=True, text=True).stdout, end='')
os.environ['PATH'] = '$directory/bin'
print(subprocess.run(['$program'], capture_output=True, text=True, close_fds=False).stdout, end='', flush=True)
os.waitpid(os.posix_spawn('$directory/bin/$program', ['x'], os.environ), 0)"
done 2>&1 | shown
ln -s ../bin/origin more/linked
more/linked
for path in "$directory/lib" lib "/nowhere:$directory/lib:"; do
    LD_LIBRARY_PATH=$path bin/plain
    LD_LIBRARY_PATH=$path "$host/plain"
    LD_LIBRARY_PATH=$path sh -c "'$host/plain'; env bin/plain"
done
"$host/fixed"
bin/plain 2>&1 | shown
printf '#!%s/bin/origin\n' "$directory" > "$host/script"; chmod +x "$host/script"; "$host/script"
# Neither of a program's own children nor of their output is anything to be seen of the way in which it got its libraries.
printf '#include <stdlib.h>\nint upper(void); int main(void) { upper(); return system("env | grep -c proc/; ./bin/origin; ls -l /proc/self/fd | grep -c weir-lib"); }\n' > children.c
gcc -o bin/children children.c -Llib -lupper -Wl,-rpath-link,lib -Wl,-rpath,'$ORIGIN/../lib'
bin/children
cat > closing.c <<'PROGRAM'
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
extern char **environ;
int main(int count, char **arguments)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    int failed = posix_spawn(&child, arguments[1], &actions, 0, arguments + 1, environ);
    if (!failed)
        waitpid(child, &status, 0);
    printf("%d %d\n", failed, status);
    return 0;
}
PROGRAM
gcc -o bin/closing closing.c && bin/closing "$directory/bin/origin" && bin/closing bin/names && bin/closing bin/missing

# The libraries with which the program started are those that it finds by `dlopen`.
cat > opens.c <<'PROGRAM'
#include <dlfcn.h>
#include <stdio.h>
int middle(void);
int main(int count, char **paths)
{
    printf("%d\n", middle());
    for (int each = 1; each < count; each++) {
        void *library = dlopen(paths[each], RTLD_NOW | (each % 2 ? RTLD_NOLOAD : 0));
        int (*found)(void) = library ? (int (*)(void))dlsym(library, "middle") : 0;
        printf("%d %d\n", each, found ? found() : -1);
    }
    void *upper = dlopen("lib/libupper.so", RTLD_NOW);
    if (!upper)
        return puts(dlerror());
    printf("%d %d\n", ((int (*)(void))dlsym(upper, "upper"))(), middle());
    printf("%d\n", dlopen("lib/libmissing.so", RTLD_NOW) == 0 && dlopen("./lower.c", RTLD_NOW) == 0);
    return 0;
}
PROGRAM
gcc -o bin/opens opens.c -Llib -lmiddle -Wl,-rpath-link,lib -Wl,-rpath,'$ORIGIN/../lib'
bin/opens "$directory/lib/libmiddle.so" lib/libmiddle.so libmiddle.so lib/link/libmiddle.so
LD_LIBRARY_PATH=lib python3 -S -c "
import ctypes
for name in ('libupper.so', '$directory/lib/libupper.so', 'libmiddle.so', 'liblower.so'):
    print(name.rpartition('/')[2], [getattr(ctypes.CDLL(name), call)() for call in ('upper', 'middle', 'lower') if call in name])"
