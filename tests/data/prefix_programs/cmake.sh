echo 'int main(void) { return 0; }' > m.c
printf 'cmake_minimum_required(VERSION 3.10)\nproject(p C)\nenable_testing()\nadd_library(l SHARED m.c)\nadd_executable(e m.c)\nadd_test(t e)\n' > CMakeLists.txt
cmake -G Ninja -S . -B b > /dev/null && cmake --build b > /dev/null && (cd b && ctest | grep 'tests passed') && rm -r b
