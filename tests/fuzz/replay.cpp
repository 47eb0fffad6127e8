// Runs targets over the files of their corpora, without a fuzzer: what was
// found once stays mended in every build.
//   replay TARGET FILE|FOLDER…

#include "targets.inc" // struct Target, targets: written by CMake

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

std::vector<std::filesystem::path> files_of(const std::string& where) {
  if (!std::filesystem::is_directory(where))
    return {where};
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(where))
    if (entry.is_regular_file())
      found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

} // namespace

int main(int count, char** words) {
  const std::string name = count > 1 ? words[1] : "";
  const auto* target = std::ranges::find_if(targets, [&](const auto& x) {
    return name == x.name;
  });
  if (target == std::end(targets)) {
    std::fprintf(stderr, "there is no target '%s'\n", name.c_str());
    return 2;
  }
  size_t inputs = 0;
  for (int i = 2; i < count; ++i)
    for (const auto& path : files_of(words[i])) {
      std::ifstream file{path, std::ios::binary};
      const std::vector<char> bytes{std::istreambuf_iterator<char>{file}, {}};
      // Named before it runs: it may end the process.
      std::printf("%s\n", path.filename().c_str());
      std::fflush(stdout);
      target->run(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      ++inputs;
    }
  std::printf("%s: %zu inputs\n", name.c_str(), inputs);
  return inputs > 0 ? 0 : 1;
}
