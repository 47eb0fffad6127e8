#include "power_loss_disk.hpp"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace fs = std::filesystem;

using troupe::real_files;

PowerLossDisk::PowerLossDisk(std::string root)
  : root_(std::move(root)), top_(load(root_)) {}

std::shared_ptr<PowerLossDisk::Node>
PowerLossDisk::load(const std::string& path) {
  auto node = std::make_shared<Node>();
  node->folder = fs::is_directory(path);
  if (node->folder) {
    for (const auto& entry : fs::directory_iterator{path})
      node->names[entry.path().filename().string()] =
        load(entry.path().string());
    node->synced_names = node->names;
  } else {
    std::ifstream in{path, std::ios::binary};
    node->bytes.assign(std::istreambuf_iterator<char>{in}, {});
    node->synced = node->bytes;
  }
  return node;
}

bool PowerLossDisk::fails() {
  const bool off = calls_++ >= last_;
  if (off)
    errno = EIO;
  return off;
}

std::shared_ptr<PowerLossDisk::Node>
PowerLossDisk::node_of(const std::string& path) const {
  auto node = top_;
  for (const auto& part : fs::path{path}.lexically_relative(root_))
    if (part != ".")
      node = node->names.at(part.string());
  return node;
}

std::shared_ptr<PowerLossDisk::Node>
PowerLossDisk::folder_of(const std::string& path) const {
  return node_of(fs::path{path}.parent_path().string());
}

namespace {
std::string name_of(const char* path) {
  return fs::path{path}.filename().string();
}
} // namespace

int PowerLossDisk::open(const char* path, int flags, mode_t mode) {
  if (fails())
    return -1;
  const int handle = real_files().open(path, flags, mode);
  if (handle < 0)
    return handle;
  if ((flags & O_CREAT) != 0)
    folder_of(path)->names[name_of(path)] = std::make_shared<Node>();
  handles_[handle] = node_of(path);
  return handle;
}

ssize_t PowerLossDisk::write(int handle, const void* bytes, size_t size) {
  if (fails())
    return -1;
  handles_.at(handle)->bytes.append(static_cast<const char*>(bytes), size);
  return real_files().write(handle, bytes, size);
}

int PowerLossDisk::fsync(int handle) {
  if (fails())
    return -1;
  auto& node = *handles_.at(handle);
  node.synced = node.bytes;
  node.synced_names = node.names;
  return real_files().fsync(handle);
}

int PowerLossDisk::close(int handle) {
  const bool off = fails();
  handles_.erase(handle);
  const int result = real_files().close(handle); // or the test leaks it
  return off ? -1 : result;
}

int PowerLossDisk::rename(const char* from, const char* to) {
  if (fails())
    return -1;
  const auto node = node_of(from);
  folder_of(from)->names.erase(name_of(from));
  folder_of(to)->names[name_of(to)] = node;
  return real_files().rename(from, to);
}

int PowerLossDisk::unlink(const char* path) {
  if (fails())
    return -1;
  folder_of(path)->names.erase(name_of(path));
  return real_files().unlink(path);
}

int PowerLossDisk::mkdir(const char* path, mode_t mode) {
  if (fails())
    return -1;
  auto node = std::make_shared<Node>();
  node->folder = true;
  folder_of(path)->names[name_of(path)] = node;
  return real_files().mkdir(path, mode);
}

int PowerLossDisk::rmdir(const char* path) {
  if (fails())
    return -1;
  folder_of(path)->names.erase(name_of(path));
  return real_files().rmdir(path);
}

void PowerLossDisk::put(const Node& node, const std::string& path,
                        std::mt19937* random) {
  const auto by_chance = [random] {
    return random != nullptr && (*random)() % 2 == 0;
  };
  if (!node.folder) {
    auto since = node.bytes.substr(node.synced.size());
    if (!by_chance()) // some of what was written since, or its length alone
      since.clear();
    else if (since.resize((*random)() % (since.size() + 1)); by_chance())
      since.assign(since.size(), '\0');
    std::ofstream{path, std::ios::binary} << node.synced << since;
    return;
  }
  fs::create_directories(path);
  auto names = node.synced_names;
  for (const auto& [name, to] : node.names) // made since, or renamed to
    if (by_chance())
      names[name] = to;
  for (const auto& [name, to] : node.synced_names) // removed since
    if (!node.names.contains(name) && by_chance())
      names.erase(name);
  for (const auto& [name, to] : names)
    put(*to, path + '/' + name, random);
}

void PowerLossDisk::after_loss(const std::string& into,
                               std::mt19937* random) const {
  fs::remove_all(into);
  put(*top_, into, random);
}
