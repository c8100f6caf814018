printf '#include <filesystem>\n#include <fstream>\n#include <iostream>\n#include <vector>\nnamespace fs = std::filesystem;\nint main() { fs::create_directories("a/b"); std::ofstream("a/b/f") << 42 << std::endl;
std::fstream both("a/b/f", std::ios::in | std::ios::out); std::string word; both >> word; both.clear(); both.seekp(1); both << "!!"; both.seekg(0); both >> word; std::cout << word << std::endl; both.close();
for (auto& e : fs::recursive_directory_iterator("a")) std::cout << e.path() << std::endl; std::cout << fs::file_size("a/b/f") << fs::remove_all("a") << std::endl; }' > m.cc
g++ -std=c++17 -O1 -o m m.cc && ./m && rm m
