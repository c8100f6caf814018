mkdir src include lib bin
echo 'int twice(int);' > include/t.h
printf '#include "t.h"\nint twice(int a) { return 2 * a; }\n' > src/t.c
printf '#include <stdio.h>\n#include "t.h"\nint main(void) { return printf("%%d\\n", twice(21)) < 0; }\n' > src/main.c
for i in $(seq 12); do echo "int f$i(void) { return $i; }" > src/f$i.c; done
cat > Makefile <<'MAKE'
CFLAGS = -Iinclude -O1 -fPIC
OBJECTS = $(patsubst src/%.c,src/%.o,$(filter-out src/main.c,$(wildcard src/*.c)))
all: bin/static bin/shared
lib/libt.a: $(OBJECTS)
	ar rcsD $@ $(sort $^)
lib/libt.so: $(OBJECTS)
	gcc -shared -o $@ $(sort $^)
bin/static: src/main.o lib/libt.a
	gcc -o $@ $^
bin/shared: src/main.o lib/libt.so
	gcc -o $@ src/main.o -Llib -lt -Wl,-rpath,'$$ORIGIN/../lib'
check: all
	bin/static && bin/shared
install: all
	mkdir -p $(DESTDIR)/usr && cp -a bin lib $(DESTDIR)/usr
MAKE
make -s -j4 check && touch src/f3.c && make -s check && make -s DESTDIR=root install && root/usr/bin/shared && nm lib/libt.so | grep -c ' T f'
strip -o bin/bare bin/static && bin/bare && objdump -d bin/bare > /dev/null && rm -r root bin lib src/*.o
